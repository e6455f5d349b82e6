#include "cli/completion.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

CompletableVerb example_verb() {
  const CompletableOption json{{"--json"}, "Print JSON"};
  const CompletableOption id{{"--id", "-i"}, "GPU's index", "N"};
  return {"gpuyard",
          "",
          {},
          {{"devices", "List", {json, id}, {}},
           {"sim", "Simulate", {}, {{"start", "Start", {json}, {}}}}}};
}

TEST(Completion, BashKnowsTheWordsOfEachVerb) {
  const std::string script = completion_script(Shell::bash, example_verb());
  EXPECT_NE(script.find("words=\"devices sim\""), std::string::npos) << script;
  EXPECT_NE(script.find("\"devices\") words=\"--json --id -i\" ;;"), std::string::npos) << script;
  EXPECT_NE(script.find("\"sim start\") words=\"--json\" ;;"), std::string::npos) << script;
  EXPECT_NE(script.find("--id|-i) COMPREPLY=()"), std::string::npos) << script;
}

TEST(Completion, ZshUsesTheSame) {
  EXPECT_TRUE(completion_script(Shell::zsh, example_verb()).starts_with("#compdef gpuyard\n"));
}

TEST(Completion, FishHasALineForEachWord) {
  const std::string script = completion_script(Shell::fish, example_verb());
  EXPECT_NE(script.find("complete -c gpuyard -n '__fish_use_subcommand' -f -a devices -d 'List'\n"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("-l id -s i -r -d 'GPU\\'s index'\n"), std::string::npos) << script;
}

}  // namespace
}  // namespace gpuyard::cli
