#include "cli/read/check.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using enum CheckConvention;

protocol::GpuVerdict gpu(std::uint32_t index, Verdict verdict, std::string why = "") {
  protocol::GpuVerdict out;
  out.index = index;
  out.verdict = verdict;
  out.why = std::move(why);
  return out;
}

protocol::GpuVerdicts machine(std::vector<protocol::GpuVerdict> gpus) {
  protocol::GpuVerdicts out;
  out.gpus = std::move(gpus);
  out.count = out.gpus.size();
  return out;
}

std::string line_of(const protocol::GpuVerdicts& verdicts, CheckConvention convention = nagios) {
  return check_line(check_of(verdicts), convention);
}

TEST(Check, AllGoodIsOk) {
  const auto all = machine({gpu(0, Verdict::good), gpu(1, Verdict::good)});
  EXPECT_EQ(line_of(all), "GPU OK - 2 of 2 GPUs are good | good=2 bad=0 unknown=0 cordoned=0");
  EXPECT_EQ(line_of(all, npd), "2 of 2 GPUs are good");
  EXPECT_EQ(line_of(machine({gpu(0, Verdict::good)}), npd), "1 of 1 GPU is good");
}

TEST(Check, BadGpuIsCriticalWithAdvice) {
  auto bad = gpu(2, Verdict::bad, "GPU 2: Xid 79. The GPU has fallen off the bus.");
  bad.advice = "Reset the GPU.";
  const auto all = machine({gpu(0, Verdict::unknown, "unknown: memory (not read yet)"), bad});
  EXPECT_EQ(check_of(all).status, CheckStatus::critical);
  EXPECT_EQ(line_of(all),
            "GPU CRITICAL - GPU 2: Xid 79. The GPU has fallen off the bus. Reset the GPU. (0 of 2 "
            "GPUs are good) | good=0 bad=1 unknown=1 cordoned=0");
}

TEST(Check, AdviceOfOneRuleIsGivenOnce) {
  auto all = machine({gpu(0, Verdict::bad, "GPU 0: Xid 79. It has fallen off the bus."),
                      gpu(3, Verdict::bad, "GPU 3: Xid 48. A memory error."),
                      gpu(4, Verdict::bad, "too hot")});
  all.gpus[0].rule = all.gpus[1].rule = "a-xid";
  all.gpus[0].advice = all.gpus[1].advice = "Reset it.";
  all.gpus[2].rule = "own";
  EXPECT_EQ(check_of(all).text,
            "GPU 0: Xid 79. It has fallen off the bus. GPU 3: Xid 48. A memory error. Reset it. "
            "GPU 4: too hot. (0 of 3 GPUs are good)");
}

TEST(Check, GpusWithTheSameReasonAreListedTogether) {
  const auto all = machine({gpu(0, Verdict::unknown, "unknown: memory (not read yet)"),
                            gpu(1, Verdict::unknown, "lost (no alert quarantines it)"),
                            gpu(2, Verdict::unknown, "unknown: memory (not read yet)")});
  EXPECT_EQ(
      check_of(all).text,
      "GPU 0, 2: unknown: memory (not read yet); GPU 1: lost (no alert quarantines it) (0 of 3 "
      "GPUs are good)");
}

TEST(Check, UnknownIsNeverOk) {
  EXPECT_EQ(check_of(machine({gpu(0, Verdict::good), gpu(1, Verdict::unknown, "x")})).status,
            CheckStatus::unknown);
  EXPECT_EQ(check_of(machine({})).status, CheckStatus::unknown);
  EXPECT_EQ(failed_check({Errc::unavailable, "no daemon"}).status, CheckStatus::unknown);
  EXPECT_EQ(failed_check({Errc::not_found, "no such route"}).text,
            "no such route (a daemon older than this program has no verdict)");
  auto dropped = machine({gpu(0, Verdict::good)});
  dropped.count = 2;
  EXPECT_EQ(check_of(dropped).status, CheckStatus::unknown);
  EXPECT_EQ(check_of(dropped).text, "1 of 2 verdicts are malformed (1 of 1 GPU is good)");
}

TEST(Check, MissingDriverIsCriticalOnceItsAlertFires) {
  auto all = machine({gpu(0, Verdict::unknown, "no driver")});
  all.driver_error = "Driver Not Loaded";
  EXPECT_EQ(check_of(all).status, CheckStatus::unknown);
  all.driver_down = true;
  EXPECT_EQ(check_of(all).status, CheckStatus::critical);
  EXPECT_EQ(check_of(all).text, "no driver: Driver Not Loaded (0 of 1 GPU is good)");
}

TEST(Check, QuarantinedGpuStaysCriticalWithoutADriver) {
  auto all =
      machine({gpu(0, Verdict::unknown, "no driver"), gpu(1, Verdict::bad, "GPU 1 is lost")});
  all.driver_error = "driver-host exited";
  EXPECT_EQ(check_of(all).status, CheckStatus::critical);
  EXPECT_EQ(check_of(all).text,
            "no driver: driver-host exited; GPU 1 is lost. (0 of 2 GPUs are good)");
}

TEST(Check, CordonedGpuIsAWarning) {
  auto cordoned = gpu(1, Verdict::good);
  cordoned.cordoned = "fan";
  const auto all = machine({gpu(0, Verdict::good), cordoned});
  EXPECT_EQ(check_of(all).status, CheckStatus::warning);
  EXPECT_EQ(check_of(all).text, "cordoned: GPU 1: fan (2 of 2 GPUs are good)");
}

TEST(Check, LineIsBoundedAndHasNoControlCharacters) {
  const auto all = machine({gpu(0, Verdict::bad, "\xC3\xA4|\n" + std::string(2000, 'x'))});
  const std::string line = line_of(all);
  EXPECT_EQ(line.size(), kMaxNagiosBytes);
  EXPECT_TRUE(line.starts_with("GPU CRITICAL - GPU 0: \xC3\xA4/?xxx"));
  EXPECT_TRUE(line.ends_with("... | good=0 bad=1 unknown=0 cordoned=0"));
  EXPECT_EQ(line_of(all, npd).size(), kMaxNpdBytes);
  const auto wide = machine({gpu(0, Verdict::bad, [] {
    std::string text;
    for (int i = 0; i < 50; ++i) text += "\xC3\xA4";
    return text;
  }())});
  EXPECT_LE(line_of(wide, npd).size(), kMaxNpdBytes);
  EXPECT_TRUE(line_of(wide, npd).ends_with("\xC3\xA4..."));
}

TEST(Check, ExitCodesFollowTheConvention) {
  using enum CheckStatus;
  int expected = 0;
  for (const CheckStatus status : {ok, warning, critical, unknown})
    EXPECT_EQ(check_exit_code(status, nagios), expected++);
  EXPECT_EQ(check_exit_code(ok, npd), 0);
  EXPECT_EQ(check_exit_code(warning, npd), 0);
  EXPECT_EQ(check_exit_code(critical, npd), 1);
  EXPECT_EQ(check_exit_code(unknown, npd), 2);
}

}  // namespace
}  // namespace gpuyard::cli
