#include "cli/slurm/run_option.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "base/golden_for_tests.h"
#include "cli/command_line_for_tests.h"
#include "cli/help.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;
using Texts = std::vector<std::string>;

// The options that the help of `gpuyard run` shows, but --help.
Texts options_of_run() {
  const VerbText program = verb_of<CompletionVerb>({"completion", "bash"}).program;
  const auto run = std::ranges::find(program.verbs, "run", &VerbText::name);
  EXPECT_NE(run, program.verbs.end());
  Texts names;
  for (const OptionText& option : run->options) {
    if (!option.shown) continue;
    names.push_back(option.argument ? option.metavar.substr(0, option.metavar.find(' '))
                                    : option.names.back());
  }
  std::erase(names, "--help");
  return names;
}

TEST(SlurmRunOption, TableHasEachOptionOfRunOnce) {
  Texts in_table;
  for (const RunOption& option : run_options()) in_table.emplace_back(option.name);
  EXPECT_THAT(in_table, UnorderedElementsAreArray(options_of_run()));
}

TEST(SlurmRunOption, TableIsInTheDocumentation) {
  EXPECT_THAT(document("slurm.md"), HasSubstr("\n" + run_options_table() + "\n"));
}

TEST(SlurmRunOption, RunLineParsesToSameOptions) {
  const std::string line = run_line(verb_of<RunVerb>(
      {"run",     "-n",       "3",       "--min-free", "20G",        "--model", "H100 NVL",
       "--among", "0,1",      "--wait",  "10m",        "--max-time", "2h",      "--power-limit",
       "300",     "--note",   "it's",    "--report",   "/r.json",    "-q",      "--through",
       "slurm",   "--socket", "/s.sock", "--",         "sh",         "-c",      "echo $HOME"}));
  EXPECT_EQ(line,
            "gpuyard run -n 3 --min-free 20G --model 'H100 NVL' --among 0,1 --wait 10m --max-time "
            "2h --power-limit 300 --note 'it'\\''s' --report /r.json --quiet --through slurm "
            "--socket /s.sock -- sh -c 'echo $HOME'");
  EXPECT_EQ(run_line(verb_of<RunVerb>({"run", "--no-wait", "--", "x"})),
            "gpuyard run -n 1 --no-wait -- x");
}

TEST(SlurmRunOption, NodeGetsNoRefusedOption) {
  const auto verb = verb_of<RunVerb>({"run", "--min-free", "20G", "--among", "0", "--through",
                                      "slurm", "--power-limit", "300", "-q", "--", "x"});
  EXPECT_THAT(node_words(verb), ElementsAre("-n", "1", "--power-limit", "300", "--quiet"));
}

}  // namespace
}  // namespace gpuyard::cli::slurm
