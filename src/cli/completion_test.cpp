#include "cli/completion.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

VerbText example_verb() {
  const OptionText json{.names = {"--json"}, .help = "Print JSON"};
  const OptionText id{.names = {"-i", "--id"}, .help = "GPU's index", .metavar = "N"};
  const OptionText argument{.help = "GPUs", .metavar = "GPU,...", .argument = true};
  const OptionText unseen{.names = {"--unseen"}, .shown = false};
  return {.name = "gpuyard",
          .verbs = {{.name = "devices", .help = "List", .options = {json, id, argument, unseen}},
                    {.name = "sim",
                     .help = "Simulate",
                     .verbs = {{.name = "start", .help = "Start", .options = {json}}}}}};
}

TEST(Completion, BashKnowsTheWordsOfEachVerb) {
  const std::string script = completion_script(Shell::bash, example_verb());
  EXPECT_NE(script.find("words=\"devices sim\""), std::string::npos) << script;
  EXPECT_NE(script.find("\"devices\") words=\"--json -i --id\" ;;"), std::string::npos) << script;
  EXPECT_NE(script.find("\"sim start\") words=\"--json\" ;;"), std::string::npos) << script;
  EXPECT_NE(script.find("-i|--id) COMPREPLY=()"), std::string::npos) << script;
}

TEST(Completion, ZshUsesTheSame) {
  const std::string script = completion_script(Shell::zsh, example_verb());
  EXPECT_TRUE(script.starts_with("#compdef gpuyard\n"));
  for (const char* of_bash_alone : {"mapfile", " path="}) {
    EXPECT_EQ(script.find(of_bash_alone), std::string::npos) << of_bash_alone;
  }
}

TEST(Completion, FishHasALineForEachWord) {
  const std::string script = completion_script(Shell::fish, example_verb());
  EXPECT_NE(script.find("complete -c gpuyard -n '__fish_use_subcommand' -f -a devices -d 'List'\n"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("-s i -l id -r -d 'GPU\\'s index'\n"), std::string::npos) << script;
}

}  // namespace
}  // namespace gpuyard::cli
