#include "cli/slurm/run_option.h"

#include <algorithm>

#include <fmt/format.h>
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

std::string_view text_of(RunOption::Treatment treatment) {
  switch (treatment) {
    case RunOption::Treatment::passed_on:
      return "passed on to srun";
    case RunOption::Treatment::on_node:
      return "done on the node";
    case RunOption::Treatment::refused:
      return "refused";
    case RunOption::Treatment::here:
      return "decides where the GPUs come from";
  }
  return "";
}

// The table for docs/slurm.md, in Markdown.
std::string run_options_table() {
  std::string table = "| option | through Slurm | |\n|---|---|---|\n";
  for (const RunOption& option : run_options()) {
    table +=
        fmt::format("| `{}` | {} | {} |\n", option.name, text_of(option.treatment), option.remark);
  }
  return table;
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
