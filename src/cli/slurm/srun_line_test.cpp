#include "cli/slurm/srun_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cli/command_line_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SrunPlace login_node() {
  return {.program = "/bin/gpuyard",
          .directory = "/home/a",
          .gpu_types = {"a100_40gb", "a100_80gb", "h100"}};
}

std::string line_of(const RunVerb& verb, const SrunPlace& place = login_node()) {
  const auto words = srun_line(verb, place);
  return words ? fmt::format("{}", fmt::join(*words, " ")) : "error: " + words.error().message;
}

Error error_of(const RunVerb& verb, const SrunPlace& place = login_node()) {
  const auto words = srun_line(verb, place);
  EXPECT_FALSE(words);
  return words ? Error{Errc::internal, ""} : words.error();
}

TEST(SrunLine, ClaimBecomesGresAndStartsGpuyardOnNode) {
  EXPECT_EQ(line_of(verb_of<RunVerb>({"run", "-n", "2", "--model", "H100", "--max-time", "2h", "--",
                                      "./train.sh", "--gpus={uuids}"})),
            "srun -N1 -n1 --gres=gpu:h100:2 --time=120 --job-name=train.sh --disable-status "
            "/bin/gpuyard run --job-directory /home/a -n 2 --model H100 --max-time 2h -- "
            "./train.sh --gpus={uuids}");
  EXPECT_EQ(line_of(verb_of<RunVerb>({"run", "--", "nvidia-smi"})),
            "srun -N1 -n1 --gres=gpu:1 --job-name=nvidia-smi --disable-status /bin/gpuyard run "
            "--job-directory /home/a -n 1 -- nvidia-smi");
}

TEST(SrunLine, WaitsAsLongAsRunDoes) {
  const auto wait_of = [](const cli::Words& words) {
    const auto line = srun_line(verb_of<RunVerb>(words), login_node());
    return line ? line->at(4) : "";
  };
  EXPECT_EQ(wait_of({"run", "--no-wait", "--", "x"}), "--immediate");
  EXPECT_EQ(wait_of({"run", "--wait", "10m", "--", "x"}), "--immediate=600");
  EXPECT_EQ(wait_of({"run", "--wait", "1.5s", "--", "x"}), "--immediate=2");
}

TEST(SrunLine, RoundsTheTimeLimitUpToMinutes) {
  EXPECT_EQ(limit_minutes(60), 1);
  EXPECT_EQ(limit_minutes(61), 2);
  EXPECT_EQ(limit_minutes(2 * 86400), 2880);
}

TEST(SrunLine, PassesOnTheNoteTheTerminalAndSilence) {
  SrunPlace place = login_node();
  place.terminal = true;
  EXPECT_EQ(line_of(verb_of<RunVerb>({"run", "--note", "a b", "-q", "--", "x"}), place),
            "srun -N1 -n1 --gres=gpu:1 --comment=a b --job-name=x --disable-status --pty --quiet "
            "/bin/gpuyard run --job-directory /home/a -n 1 --note a b --quiet -- x");
}

TEST(SrunLine, StepWithinJobRequestsNoGpus) {
  SrunPlace place = login_node();
  place.in_job = true;
  EXPECT_EQ(line_of(verb_of<RunVerb>({"run", "-n", "2", "--model", "A100", "--max-time", "2h",
                                      "--note", "n", "--", "x"}),
                    place),
            "srun -N1 -n1 --job-name=x --disable-status /bin/gpuyard run --job-directory /home/a "
            "--in-job -n 2 --model A100 --max-time 2h --note n -- x");
}

TEST(SrunLine, AmbiguousModelIsRefusedWithCommandForEachType) {
  const Error error = error_of(
      verb_of<RunVerb>({"run", "-n", "2", "--through", "slurm", "--model", "A100", "--", "x"}));
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.message, "--model: \"A100\" matches 2 GPU types of this cluster");
  EXPECT_EQ(error.hint,
            "gpuyard run -n 2 --model a100_40gb --through slurm -- x\n"
            "gpuyard run -n 2 --model a100_80gb --through slurm -- x");
}

TEST(SrunLine, UnknownModelIsRefused) {
  const auto verb = verb_of<RunVerb>({"run", "--model", "L4", "--", "x"});
  EXPECT_EQ(error_of(verb).cause, "its types are a100_40gb, a100_80gb, h100");
  EXPECT_THAT(error_of(verb).hint, HasSubstr("gpuyard run -n 1 --model h100 -- x"));
  SrunPlace untyped = login_node();
  untyped.gpu_types.clear();
  EXPECT_EQ(error_of(verb, untyped).cause, "the GPUs of this cluster have no type in gres.conf");
  EXPECT_EQ(error_of(verb, untyped).hint, "gpuyard run -n 1 -- x");
}

TEST(SrunLine, UnsupportedOptionIsRefusedWithReplacement) {
  const Error error = error_of(verb_of<RunVerb>(
      {"run", "-n", "2", "--min-free", "40G", "--model", "H100", "--among", "0,1", "--", "x"}));
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.message, "--min-free cannot be used with Slurm");
  EXPECT_EQ(error.hint, "gpuyard run -n 2 --model H100 -- x");
  EXPECT_EQ(error_of(verb_of<RunVerb>({"run", "--among", "0", "--", "x"})).message,
            "--among cannot be used with Slurm");
}

TEST(SrunLine, RefusesBadValuesBeforeTheWait) {
  for (const auto& [option, value] : {std::pair{"--wait", "1x"}, std::pair{"--max-time", "0s"},
                                      std::pair{"--power-limit", "loud"}}) {
    const ParseOutcome refused = end_of({"run", "--through", "slurm", option, value, "--", "x"});
    EXPECT_EQ(refused.code, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr(option));
  }
}

}  // namespace
}  // namespace gpuyard::cli::slurm
