#include "cli/slurm/srun_messages.h"

#include <gtest/gtest.h>

namespace gpuyard::cli::slurm {
namespace {

SrunMessages messages_of(std::string_view text) {
  SrunMessages messages;
  for (const char c : text) messages.add({&c, 1});  // bytes come in any portions
  return messages;
}

// The words are those of Slurm 22.05.
TEST(SrunMessages, RefusalHasCodeMessageAndHint) {
  const auto code_of = [](std::string_view text) {
    const auto refusal = messages_of(text).refusal();
    return refusal ? std::optional(refusal->code) : std::nullopt;
  };
  EXPECT_EQ(code_of("srun: job 13 queued and waiting for resources\n"
                    "srun: error: Unable to allocate resources: Requested nodes are busy\n"),
            Errc::conflict);
  EXPECT_EQ(code_of("srun: error: Unable to allocate resources: Unable to contact slurm controller "
                    "(connect failure)\r\n"),
            Errc::unavailable);
  // The munge keys differ.
  EXPECT_EQ(code_of("srun: error: Unable to allocate resources: Zero Bytes were transmitted or "
                    "received\n"),
            Errc::unavailable);
  EXPECT_EQ(code_of("srun: error: Unable to allocate resources: Invalid account or "
                    "account/partition combination specified\n"),
            Errc::denied);
  EXPECT_EQ(code_of("srun: error: Unable to allocate resources: Requested node configuration is "
                    "not available\n"),
            Errc::invalid);
  EXPECT_EQ(code_of("srun: error: Unable to create step for job 9: Invalid generic resource (gres) "
                    "specification\n"),
            Errc::invalid);
  EXPECT_EQ(code_of("srun: Job has been cancelled\nsrun: error: Unable to allocate resources: "
                    "Job/step already completing or completed\n"),
            Errc::conflict);
  EXPECT_EQ(code_of("srun: fatal: Something new\n"), Errc::conflict);
}

TEST(SrunMessages, CommandThatRanIsNotRefused) {
  const auto failed = messages_of("srun: error: n1: task 0: Exited with exit code 3\n");
  EXPECT_FALSE(failed.refusal());
  EXPECT_TRUE(failed.has_task_ended());
  EXPECT_FALSE(failed.is_interrupted());
  // The command ran srun itself, which failed.
  EXPECT_FALSE(messages_of("srun: error: Unable to allocate resources: Requested nodes are busy\n"
                           "srun: error: n1: task 0: Exited with exit code 1\n")
                   .refusal());
  EXPECT_FALSE(messages_of("srun: error: Node failure on n1\n").refusal());
  EXPECT_FALSE(messages_of("Unable to allocate resources: Requested nodes are busy\n").refusal());
  EXPECT_FALSE(messages_of("").has_task_ended());
}

TEST(SrunMessages, InterruptIsSeen) {
  EXPECT_TRUE(messages_of("srun: error: n1: task 0: Interrupt\r\n").is_interrupted());
  EXPECT_FALSE(messages_of("srun: error: n1: task 0: Terminated\n").is_interrupted());
}

TEST(SrunMessages, TimeLimitAndMissingProgramAreSeen) {
  EXPECT_TRUE(messages_of("slurmstepd-n1: error: *** STEP 5.0 ON n1 CANCELLED AT "
                          "2026-11-29T21:01:09 DUE TO TIME LIMIT ***\n")
                  .is_time_over());
  EXPECT_FALSE(messages_of("slurmstepd: error: *** STEP 4.0 ON n1 CANCELLED AT "
                           "2026-11-29T21:00:44 ***\n")
                   .is_time_over());
  EXPECT_FALSE(messages_of("echo: *** STEP 5.0 DUE TO TIME LIMIT ***\n").is_time_over());
  EXPECT_TRUE(
      messages_of("slurmstepd-n1: error: execve(): /usr/bin/gpuyard: No such file or directory\n")
          .is_program_missing());
}

TEST(SrunMessages, LongLineOfTheCommandIsCut) {
  const std::string line(100'000, 'x');
  EXPECT_TRUE(messages_of(line + "\nsrun: error: n1: task 0: Killed\n").has_task_ended());
}

}  // namespace
}  // namespace gpuyard::cli::slurm
