// The help of every verb, and what completion and manual make of the same texts.
#include "cli/help.h"

#include <array>
#include <functional>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line_for_tests.h"
#include "cli/completion.h"
#include "cli/options.h"

namespace gpuyard::cli {
namespace {

using Path = std::vector<std::string>;

const VerbText& whole_program() {
  static const VerbText program = verb_of<CompletionVerb>({"completion", "bash"}).program;
  return program;
}

// Calls `check` for the program and each verb, with the words that lead to it.
void for_each_verb(const std::function<void(const Path&, const VerbText&)>& check) {
  const auto walk = [&](const Path& path, const VerbText& verb, const auto& again) -> void {
    check(path, verb);
    for (const VerbText& below : verb.verbs) {
      Path longer = path;
      longer.push_back(below.name);
      again(longer, below, again);
    }
  };
  walk({}, whole_program(), walk);
}

// Adds the verb of each row of verbs.h to a program of its own.
struct RowCheck {
  template <class... AnyVerb>
  void add(const char* /*heading*/, const VerbRow<AnyVerb>&... rows) {
    (check(rows), ...);
  }

  template <class AnyVerb>
  void check(const VerbRow<AnyVerb>& row) {
    Program program("program", "Cook", "1");
    AnyVerb verb;
    row.add_to(program.options(), verb);
    EXPECT_EQ(program.text().verbs.front().name, row.name);
    ++count;
  }

  std::size_t count = 0;
};

ParseOutcome end_of_all(const Path& path, const std::vector<std::string>& more) {
  Words words;
  for (const std::string& word : path) words.push_back(word.c_str());
  for (const std::string& word : more) words.push_back(word.c_str());
  return end_of(words);
}

std::string help_on(const Path& path) {
  const ParseOutcome ended = end_of_all(path, {"--help"});
  EXPECT_EQ(ended.code, 0) << fmt::format("{}", fmt::join(path, " "));
  EXPECT_EQ(ended.err, "");
  return ended.out;
}

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

VerbText example_program() {
  const OptionText help{.names = {"-h", "--help"}, .help = "Print help", .heading = kGlobalOptions};
  const OptionText json{.names = {"--json"}, .help = "Print JSON", .heading = kGlobalOptions};
  VerbText cook{.name = "cook", .help = "Cook a meal"};
  cook.explanation = "Waits until the kitchen is free.";
  cook.options = {
      help,
      json,
      {.names = {"-n", "--guests"},
       .help = "Number of guests",
       .metavar = "N",
       .default_value = "1",
       .heading = "Meal"},
      {.help = "Dish to cook", .metavar = "DISH", .argument = true, .required = true},
      {.names = {"--until"},
       .help = "Time to serve",
       .metavar = "TIME",
       .environment = "DINNER",
       .heading = "Meal",
       .required = true},
      {.names = {"--vegan"},
       .help = "Use neither milk nor eggs, and no honey, which bees have made"},
      {.names = {"--secret"}, .help = "Unseen", .shown = false},
  };
  cook.examples = {{"kitchen cook soup --until 19:00", "Cook for one"},
                   {"kitchen cook rice --until 7", ""}};
  cook.exit_codes = "Exit code 7: no gas";
  VerbText clean{.name = "clean", .help = "Clean"};
  clean.options = {help};
  return {
      .name = "kitchen",
      .help = "Run a kitchen.",
      .options = {help,
                  {.names = {"--version"}, .help = "Print the version", .heading = kGlobalOptions}},
      .verbs = {cook, clean}};
}

TEST(Help, HasItsPartsInOrder) {
  EXPECT_EQ(help_of(example_program(), {"cook"}, 60).str(),
            "Cook a meal\n"
            "Waits until the kitchen is free.\n"
            "\n"
            "Usage: kitchen cook --until TIME [OPTIONS] DISH\n"
            "\n"
            "Arguments:\n"
            "  DISH              Dish to cook\n"
            "\n"
            "Meal:\n"
            "  -n, --guests N    Number of guests [default: 1]\n"
            "      --until TIME  Time to serve [env: DINNER] (required)\n"
            "\n"
            "Options:\n"
            "      --vegan       Use neither milk nor eggs, and no honey,\n"
            "                    which bees have made\n"
            "\n"
            "Global options: --json, -h (see kitchen --help)\n"
            "\n"
            "Examples:\n"
            "  kitchen cook soup --until 19:00     Cook for one\n"
            "  kitchen cook rice --until 7\n"
            "\n"
            "Exit code 7: no gas\n");
}

TEST(Help, OfTheProgramDescribesGlobalOptionsOnce) {
  EXPECT_EQ(help_of(example_program(), {}, 100).str(),
            "Run a kitchen.\n"
            "\n"
            "Usage: kitchen [COMMAND] [OPTIONS]\n"
            "\n"
            "Commands:\n"
            "  cook   Cook a meal\n"
            "  clean  Clean\n"
            "\n"
            "Global options (each command lists the ones it takes):\n"
            "      --json     Print JSON\n"
            "  -h, --help     Print help\n"
            "      --version  Print the version\n");
  EXPECT_EQ(help_of(example_program(), {"clean"}, 100).str(),
            "Clean\n\nUsage: kitchen clean [OPTIONS]\n")
      << "-h alone needs no line";
}

TEST(Help, UsageMayHaveRemarksInAColumn) {
  VerbText program = example_program();
  program.verbs[1].usage = {"kitchen clean\tShow what is dirty", "kitchen clean --all\tClean it"};
  EXPECT_EQ(help_of(program, {"clean"}, 100).str(),
            "Clean\n\n"
            "Usage: kitchen clean          Show what is dirty\n"
            "       kitchen clean --all    Clean it\n");
}

TEST(Help, OfEveryVerbHasNoNoise) {
  const std::regex noise(
      R"(Excludes:|Needs:|REQUIRED|:(U?INT|FLOAT|TEXT)|->[0-9]|\.\.\. ?\.\.\.|\bVALUE\b)");
  for_each_verb([&](const Path& path, const VerbText& verb) {
    const std::string help = help_on(path);
    std::smatch found;
    EXPECT_FALSE(std::regex_search(help, found, noise)) << found.str() << " in:\n" << help;
    EXPECT_TRUE(help.starts_with(verb.help + "\n")) << help;
    EXPECT_NE(help.find("\nUsage: gpuyard"), help.npos) << help;
  });
}

TEST(Help, ExplainsInAtMostFiveLinesOf100Columns) {
  for_each_verb([&](const Path& path, const VerbText&) {
    const std::string help = help_on(path);
    std::size_t above_usage = 0;
    for (const Printable& line : Printable::lines(help.substr(0, help.find("\nUsage:"))).split()) {
      above_usage += line.empty() ? 0 : 1;
    }
    EXPECT_LE(above_usage, 1U + 5) << help;
    // An example is one line, which can be pasted.
    for (const Printable& line :
         Printable::lines(help.substr(0, help.find("\nExamples:"))).split()) {
      EXPECT_LE(line.str().size(), 100U) << help;
    }
  });
}

TEST(Help, SummaryIsAShortImperative) {
  for_each_verb([](const Path& path, const VerbText& verb) {
    if (path.empty()) return;
    const std::string first = verb.help.substr(0, verb.help.find_first_of(" ,"));
    EXPECT_LE(verb.help.size(), 75U) << verb.help;
    EXPECT_TRUE(is_capital(verb.help.front())) << verb.help;
    EXPECT_FALSE(verb.help.ends_with('.')) << verb.help;
    EXPECT_FALSE(first.ends_with("ing") || (first.ends_with('s') && !first.ends_with("ss")))
        << verb.help;
  });
}

TEST(Help, OptionTextIsShort) {
  for_each_verb([](const Path& path, const VerbText& verb) {
    for (const OptionText& option : verb.options) {
      const std::string name =
          fmt::format("gpuyard {}: {}", fmt::join(path, " "), names_of(option));
      EXPECT_LE(option.help.size(), 80U) << name;
      EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << name;
      EXPECT_EQ(option.help.find("[default"), option.help.npos) << name;
      EXPECT_EQ(option.help.find("[env"), option.help.npos) << name;
      EXPECT_FALSE(option.argument && option.metavar.empty()) << name;
    }
  });
}

// By this name a verb is added without all others.
TEST(VerbRow, HasTheNameOfItsVerb) {
  RowCheck rows;
  add_verbs(rows);
  EXPECT_EQ(rows.count, whole_program().verbs.size());
}

// Help has its global options in the order of all verbs, also where only one of them is added.
TEST(Help, FormsAreEquivalent) {
  for_each_verb([](const Path& path, const VerbText& /*verb*/) {
    if (path.size() != 1) return;
    const std::string help = help_on(path);
    for (const char* const form : {"-h", "--help=x", "--nosuch -h"}) {
      EXPECT_EQ(end_of_all(path, shell_words(form)).out, help) << path.front();
    }
  });
}

TEST(Help, GlobalOptionIsTheSameInEveryVerb) {
  const auto globals = global_options(whole_program());
  std::vector<std::string> names;
  for (const OptionText& option : globals) names.push_back(option.names.front());
  EXPECT_EQ(names, (std::vector<std::string>{"-H", "--socket", "--local", "--nvml", "--simulate",
                                             "--json", "--color", "-h", "--version"}));
  for_each_verb([&](const Path& path, const VerbText& verb) {
    for (const OptionText& option : verb.options) {
      if (option.heading != kGlobalOptions) continue;
      const auto global = std::ranges::find(globals, option.names, &OptionText::names);
      ASSERT_NE(global, globals.end()) << names_of(option);
      EXPECT_EQ(names_of(option) + text_of(option), names_of(*global) + text_of(*global))
          << fmt::format("gpuyard {}", fmt::join(path, " "));
    }
  });
}

// The words behind "gpuyard" of an example, also of one in `eval "$(...)"`.
std::vector<std::string> words_of_example(const std::string& line) {
  const auto begin = line.find("gpuyard ");
  const bool inside = begin != 0 && begin != line.npos && line[begin - 1] == '(';
  std::vector<std::string> words =
      shell_words(line.substr(begin, inside ? line.find(')') - begin : line.npos));
  words.erase(words.begin());
  return words;
}

TEST(Help, EveryExampleIsAcceptedByTheProgram) {
  for_each_verb([](const Path& path, const VerbText& verb) {
    const std::string name = fmt::format("gpuyard {}", fmt::join(path, " "));
    const bool first_level = path.size() < 2;
    EXPECT_GE(verb.examples.size(), first_level ? 2U : 1U) << name;
    EXPECT_LE(verb.examples.size(), 5U) << name;
    for (const Example& example : verb.examples) {
      const ParseOutcome ended = end_of_all({}, words_of_example(example.command));
      EXPECT_EQ(ended.code, -1) << name << ": " << example.command << "\n" << ended.err;
    }
  });
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("(^|[^-a-zA-Z])" + word + "($|[^-a-z])"));
}

// The line of the script that has the words after that verb.
std::string completion_of(const Path& path) {
  static const std::string script = completion_script(Shell::bash, whole_program());
  const auto begin = script.find(fmt::format("\"{}\") words=", fmt::join(path, " ")));
  return script.substr(begin, script.find('\n', begin) - begin);
}

// The verb's own part of its page.
std::string manual_on(const Path& path) {
  static const std::vector<ManualPage> pages = manual_of(whole_program());
  const auto page =
      std::ranges::find(pages, fmt::format("gpuyard-{}.1", path.front()), &ManualPage::file);
  const std::string text = page->text;
  const auto begin = path.size() == 1
                         ? text.find(".Sh DESCRIPTION")
                         : text.find(fmt::format(".Ss gpuyard {}\n", fmt::join(path, " ")));
  EXPECT_NE(begin, text.npos) << fmt::format("{}", fmt::join(path, " "));
  return text.substr(begin, text.find("\n.S", begin) - begin);
}

TEST(FormerNames, OfOptionsAreAcceptedButNeverShown) {
  std::size_t seen = 0;
  for_each_verb([&](const Path& path, const VerbText& verb) {
    for (const OptionText& option : verb.options) {
      for (const std::string& former : option.former) {
        const std::string name = fmt::format("gpuyard {} {}", fmt::join(path, " "), former);
        ++seen;
        const ParseOutcome ended = end_of_all(path, {former});
        EXPECT_EQ(ended.err.find("unknown option"), ended.err.npos) << name << "\n" << ended.err;
        EXPECT_FALSE(has_word(help_on(path), former)) << name;
        EXPECT_FALSE(has_word(completion_of(path), former)) << name;
        EXPECT_FALSE(has_word(manual_on(path), "Fl " + former.substr(1))) << name;
      }
      if (!option.shown || option.names.empty()) continue;
      const std::string& today = option.names.back();
      EXPECT_TRUE(path.empty() || has_word(completion_of(path), today)) << today;
      EXPECT_TRUE(path.empty() || has_word(manual_on(path), "Fl " + today.substr(1))) << today;
    }
  });
  EXPECT_GT(seen, 20U);
}

TEST(FormerNames, OfVerbsAreAcceptedButNeverShown) {
  std::vector<std::string> seen;
  for_each_verb([&](const Path& path, const VerbText& verb) {
    for (const std::string& former : verb.former) {
      Path before = path;
      before.back() = former;
      seen.push_back(fmt::format("{}", fmt::join(before, " ")));
      const Path parent(path.begin(), path.end() - 1);
      EXPECT_EQ(help_on(before), help_on(path)) << seen.back();
      EXPECT_EQ(help_on(parent).find("\n  " + former + " "), std::string::npos) << seen.back();
      EXPECT_FALSE(has_word(completion_of(parent), former)) << seen.back();
      EXPECT_FALSE(has_word(manual_on({path.front()}), seen.back())) << seen.back();
    }
  });
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"config print", "fleet hang-up", "fleet who",
                                            "slurm begin", "slurm end"}));
}

}  // namespace
}  // namespace gpuyard::cli
