// Names of GPUs on the command line: alike for every verb that takes GPUs.
#include "cli/command_line_for_tests.h"

namespace gpuyard::cli {
namespace {

// A row for each verb that takes GPUs: the verb, how it takes them, and the words that arrive.
struct GpusCase {
  Words verb;
  bool as_argument = true;
  bool with_blanks = true;  // false: a value may follow
  Words after = {};
  Words options = {"--gpu", "--gpus"};
};

std::string gpus_of(const Words& words) {
  const auto parsed = parse(words);
  const Verb* chosen = std::get_if<Verb>(&parsed);
  if (chosen == nullptr) return "not parsed";
  return std::visit(
      [](const auto& any) -> std::string {
        if constexpr (requires { std::string(any.gpus); }) {
          return any.gpus;
        } else {
          return "no GPUs";
        }
      },
      *chosen);
}

Words joined(Words words, const Words& more, const Words& after) {
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), after.begin(), after.end());
  return words;
}

TEST(NamedGpus, AreNamedAlikeByEveryVerb) {
  const std::vector<GpusCase> cases = {
      {{"devices"}},
      {{"processes"}},
      {{"history"}},
      {{"why"}},
      {{"events"}},
      {{"query", "--fields", "name"}},
      {{"audit"}},
      {{"cordon"}, true, true, {"--reason", "x"}},
      {{"uncordon"}},
      {{"clocks"}, true, true, {}, {"--gpus"}},  // --gpu was the clocks
      {{"restore"}},
      {{"reset"}, true, false},
      {{"power"}, true, false},
      {{"persistence"}, true, false},
      {{"compute-mode"}, true, false},
      {{"ecc"}, true, false},
      {{"alerts", "history"}},
      {{"alerts", "silence", "--for", "1h"}},
      {{"watch"}, false},  // its words are fields,
      {{"smi", "--query-gpu", "name"}, false, true, {}, {"--id", "--gpus"}},  // nvidia-smi's,
      {{"energy"}, false, false, {"--", "train"}},                            // or a command's
  };
  for (const auto& [words, as_argument, with_blanks, after, options] : cases) {
    const std::string name = testing::PrintToString(words);
    for (const char* option : options) {
      EXPECT_EQ(gpus_of(joined(words, {option, "0,GPU-1,0000:03:00.0"}, after)),
                "0,GPU-1,0000:03:00.0")
          << name << option;
    }
    if (as_argument) {
      EXPECT_EQ(gpus_of(joined(words, {"0,GPU-1"}, after)), "0,GPU-1") << name;
    }
    if (as_argument && with_blanks) {
      EXPECT_EQ(gpus_of(joined(words, {"0", "GPU-1,2"}, after)), "0,GPU-1,2") << name;
    }
    if (!as_argument) {
      EXPECT_EQ(gpus_of(joined(words, {options[0], "0", "--gpus", "1"}, after)), "0,1") << name;
    }
  }
  const auto power = verb_of<ControlVerb>({"power", "0", "1"});
  EXPECT_EQ(power.gpus, "0");
  EXPECT_EQ(power.value, "1");
  const auto clocks = verb_of<ControlVerb>({"clocks", "0", "1", "--gpu-clocks", "1200,1500"});
  EXPECT_EQ(clocks.gpus, "0,1");
  EXPECT_EQ(clocks.gpu_clocks, "1200,1500");
}

TEST(NamedGpus, EmptyListElementIsRefused) {
  for (const char* list : {",", "0,", ",0", "0,,1", " ", ", ,"}) {
    for (const Words& words :
         {Words{"devices", list}, Words{"devices", "--gpus", list},
          Words{"alerts", "history", "--gpus", list}, Words{"events", list},
          Words{"cordon", list, "--reason", "x"}, Words{"energy", "--gpus", list, "--", "train"}}) {
      const ParseOutcome ended = end_of(words);
      EXPECT_EQ(ended.code, 2) << testing::PrintToString(words);
      EXPECT_NE(ended.err.find(": expected names with commas between them; got \""),
                std::string::npos)
          << ended.err;
    }
  }
}

}  // namespace
}  // namespace gpuyard::cli
