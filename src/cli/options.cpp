#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/places.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/completion.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

constexpr const char* kCommand = "command";

// CLI11 takes a word like [1,2] for two words, even in another program's command.
constexpr char kProtected = '\x01';

void protect(std::vector<std::string>& words) {
  for (auto word = std::ranges::find(words, "--"); word != words.end(); ++word) {
    if (word->starts_with('[')) word->insert(0, 1, kProtected);
  }
}

// Options whose value is a path. A shell replaces ~ only at the beginning of a word, so that
// --state=~/yard arrives as it was written, and would make a directory called ~.
constexpr std::array<std::string_view, 13> kPaths = {
    "--socket", "--state", "--config", "--nvml", "--report", "--summary",    "--scenario",
    "--replay", "--world", "--spool",  "--into", "--out",    "--token-file",
};

void put_home(std::vector<std::string>& words) {
  const std::string home(environment_variable("HOME"));
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    const std::size_t equals = std::min(word->find('='), word->size());
    if (std::ranges::count(kPaths, word->substr(0, equals)) == 0) continue;
    if (const auto path = path_at_home(word->substr(std::min(equals + 1, word->size())), home)) {
      word->replace(equals + 1, word->npos, *path);
    }
  }
}

// Changes a value's text before it is read. CLI11's own transform adds a text to the help.
template <class Change>
CLI::Option* transform(CLI::Option* option, Change&& change) {
  const auto changed = [change = std::forward<Change>(change)](std::string& text) {
    change(text);
    return std::string();
  };
  return option->transform(CLI::Validator(changed, "", ""));
}

// Checks as CLI11's rule does, and says in our words what was expected.
CLI::Validator saying(CLI::Validator rule, std::string expected) {
  const std::string description = rule.get_description();
  const auto check = [rule = std::move(rule), expected = std::move(expected)](std::string& text) {
    const std::string given = text;
    if (rule(text).empty()) return std::string();
    return fmt::format("expected {}; got \"{}\"", expected, printable(given));
  };
  return {check, description, ""};
}

// "a, b or c"
template <class Words>
std::string any_of_words(const Words& words) {
  std::string text;
  std::size_t left = words.size();
  for (const auto& word : words) {
    text += fmt::format("{}{}", word, left > 2 ? ", " : left == 2 ? " or " : "");
    --left;
  }
  return text;
}

// An unset shell variable must not silently mean the default.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == kCommand) continue;  // its words belong to another program
    for (const std::string& value : option->results()) {
      if (value.empty()) throw CLI::ValidationError(option->get_name(), "the value is empty");
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) refuse_empty_values(*verb);
}

// The last verb that was given, and the words that lead to it.
struct Given {
  const CLI::App* verb;
  std::string above;  // "gpuyard lease"
  std::string path() const {
    return above.empty() ? verb->get_name() : above + " " + verb->get_name();
  }
};

void add_options(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
}

// Returns the words that may stand in the place of an unknown word.
std::vector<std::string> known_words(const CLI::App& verb, bool option) {
  std::vector<std::string> names;
  if (option) add_options(verb, names);
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; })) {
    if (!below->get_name().empty() && !option) names.push_back(below->get_name());
    if (below->get_name().empty() && option) add_options(*below, names);
  }
  return names;
}

// Says why a word is not known, and which one may be meant.
std::string said_of(const Given& given, std::string word) {
  const bool option = word.starts_with('-');
  if (option) word.erase(std::min(word.find('='), word.size()));
  const auto known = known_words(*given.verb, option);
  std::string text;
  if (option) {
    text = fmt::format("`{}`: unknown option {}", given.path(), word);
  } else if (!known.empty()) {
    text = fmt::format("`{}`: unknown command {}", given.path(), word);
  } else {
    text = fmt::format("`{}`: unexpected argument \"{}\"", given.path(), word);
  }
  const auto meant = nearest(word, {known.begin(), known.end()});
  return meant.empty() ? text : fmt::format("{}; did you mean {}?", text, meant);
}

// Returns CLI11's usage line for the last verb that was given.
std::string usage_of(const Given& given) {
  const std::string help = given.verb->help(given.above);
  const std::size_t begin = std::min(help.find("Usage:"), help.size());
  const std::string line = help.substr(begin, help.find('\n', begin) - begin);
  return fmt::format("  {}\n  For more information, run `{} --help`.", line, given.path());
}

// Reads the words up to a lone -- as CLI11 will, and finds the first that is wrong. CLI11 takes the
// next word for the value of `--note=`, and goes on after a word that it does not know; what it
// complains of in the end need not be what was wrong.
class WordReader {
 public:
  explicit WordReader(const CLI::App& program) : given_{&program, ""} {}

  Result<void> read(const std::vector<std::string>& words) {
    const auto dashes = std::ranges::find(words, "--");
    const std::vector<std::string> ours(words.begin(), dashes);
    rest_ = ours;
    while (!rest_.empty()) {
      const std::string word(rest_.front());
      rest_ = rest_.subspan(1);
      if (auto good = read_word(word); !good && !wrong_) wrong_ = good.error();
    }
    if (!wrong_ && dashes != words.end() && !command_.empty()) {
      wrong_ = wrong(fmt::format("\"{}\" stands before --; the command is what follows --",
                                 printable(command_)));
    }
    rest_ = {};
    // Help is an answer, whatever else was said.
    return wrong_ && !help_ ? Result<void>(*wrong_) : Result<void>();
  }

  const Given& given() const { return given_; }

  // The option's name as the user wrote it: "-n", not "--gpus".
  std::string name_of(const CLI::Option& option) const {
    const auto written = names_.find(&option);
    return written != names_.end() ? written->second : option.get_name();
  }

  // Says what CLI11 says, in our words.
  std::string in_our_words(const CLI::ParseError& error) const {
    std::string said = error.what();
    for (const auto& [option, written] : names_) {
      const std::string name = option->get_name();
      constexpr std::string_view kNotRead = "Could not convert: ";
      if (const std::string begin = std::string(kNotRead) + name + " = "; said.starts_with(begin)) {
        return fmt::format("{}: expected a number; got \"{}\"", written,
                           printable(said.substr(begin.size())));
      }
      if (said.starts_with(name + ": ") || said.starts_with(name + " ")) {
        return written + said.substr(name.size());
      }
    }
    if (said == "A subcommand is required") {
      return fmt::format("`{0}` needs a verb; `{0} --help` lists them", given_.path());
    }
    if (said == std::string(kCommand) + " is required") {
      return fmt::format("`{0}` needs a command, after --: {0} -- COMMAND", given_.path());
    }
    return said;
  }

 private:
  static Error wrong(std::string why) { return {Errc::invalid, std::move(why)}; }

  Result<void> read_word(const std::string& word) {
    const bool number = word.size() > 1 && word[1] >= '0' && word[1] <= '9';
    if (word.starts_with("--") || (word.starts_with('-') && word.size() > 1 && !number)) {
      return read_option(word);
    }
    if (const CLI::App* const below = verb_called(word)) {
      given_ = {below, given_.path()};
      return {};
    }
    return read_argument(word);
  }

  const CLI::App* verb_called(const std::string& word) const {
    const auto below = given_.verb->get_subcommands(
        [&](const CLI::App* verb) { return !word.empty() && verb->get_name() == word; });
    return below.empty() ? nullptr : below.front();
  }

  // A word that is no option: another program's command has the rest of the line.
  Result<void> read_argument(const std::string& word) {
    const auto options = given_.verb->get_options(
        [](const CLI::Option* option) { return option->get_positional(); });
    const bool takes_command = std::ranges::any_of(
        options, [](const CLI::Option* option) { return option->get_name() == kCommand; });
    if (takes_command) {
      if (command_.empty()) command_ = word;
      return {};
    }
    if (options.empty() && !takes_arguments(*given_.verb)) return wrong(said_of(given_, word));
    if (word.empty()) {
      return wrong(fmt::format("`{}`: an argument is empty; is a variable unset?", given_.path()));
    }
    return {};
  }

  static bool takes_arguments(const CLI::App& verb) {
    const auto groups =
        verb.get_subcommands([](const CLI::App* group) { return group->get_name().empty(); });
    return std::ranges::any_of(groups, [](const CLI::App* group) {
      return !group->get_options([](const CLI::Option* option) { return option->get_positional(); })
                  .empty();
    });
  }

  Result<void> read_option(const std::string& word) {
    if (!command_.empty()) {
      return wrong(
          fmt::format("{} follows the command {}: put -- before the command, as in `{} -- "
                      "{} {} ...`",
                      printable(word), printable(command_), given_.path(), printable(command_),
                      printable(word)));
    }
    const bool is_long = word.starts_with("--");
    const std::size_t equals = is_long ? std::min(word.find('='), word.size()) : 2;
    const std::string name = word.substr(0, equals);
    const CLI::Option* const option = given_.verb->get_option_no_throw(name);
    if (option == nullptr) return wrong(said_of(given_, is_long ? word : name));
    help_ =
        help_ || option == given_.verb->get_help_ptr() || option == given_.verb->get_version_ptr();
    names_.try_emplace(option, name);
    const bool flag = option->get_items_expected_max() == 0;
    if (is_long && equals + 1 == word.size()) return empty_value(name);
    if (flag && !is_long && word.size() > 2) return read_option("-" + word.substr(2));
    if (flag || equals < word.size()) return {};
    if (rest_.empty()) return wrong(name + ": a value must follow");
    const bool empty = rest_.front().empty();
    rest_ = rest_.subspan(1);
    return empty ? empty_value(name) : Result<void>();
  }

  static Result<void> empty_value(const std::string& name) {
    return wrong(name + ": the value is empty");
  }

  Given given_;
  std::span<const std::string> rest_;
  std::string command_;  // the first word of another program's command, before any --
  bool help_ = false;
  std::optional<Error> wrong_;
  std::map<const CLI::Option*, std::string> names_;
};

CompletableOption completable(const CLI::Option& option) {
  CompletableOption words{{}, option.get_description()};
  for (const auto& name : option.get_lnames()) words.names.push_back("--" + name);
  for (const auto& name : option.get_snames()) words.names.push_back("-" + name);
  if (words.names.empty()) words.names.push_back(option.get_name());
  if (option.get_items_expected_max() > 0) {
    // Behind the colon CLI11 says what the value is checked for.
    const std::string type = option.get_type_name();
    words.value = type.substr(0, type.find(':'));
    if (words.value.empty()) words.value = "VALUE";
  }
  words.required = option.get_required();
  words.repeated = option.get_items_expected_max() > 1;
  return words;
}

void add_words(const CLI::App& app, CompletableVerb& verb) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    auto& words = option->nonpositional() ? verb.options : verb.positionals;
    words.push_back(completable(*option));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_name().empty()) {  // a group of options
      add_words(*below, verb);
      continue;
    }
    CompletableVerb next{below->get_name(), below->get_description(), {}, {}};
    next.heading = below->get_group();
    add_words(*below, next);
    verb.verbs.push_back(std::move(next));
  }
}

}  // namespace

Option Option::required() const {
  return Option(option_->required());
}

Option Option::type_name(const char* name) const {
  return Option(option_->type_name(name));
}

Option Option::needs(Option other) const {
  return Option(option_->needs(other.option_));
}

Option Option::excludes(Option other) const {
  return Option(option_->excludes(other.option_));
}

Option Option::range(int least, int most) const {
  return Option(option_->check(
      saying(CLI::Range(least, most), fmt::format("a whole number from {} to {}", least, most))));
}

Option Option::range(double least, double most) const {
  // CLI11 would accept "nan", because it is neither below nor above a bound.
  const CLI::Validator range = CLI::Range(least, most);
  const auto within = [range](std::string& text) {
    return text.find_first_of("nN") == text.npos ? range(text) : std::string("not a number");
  };
  return Option(option_->check(saying({within, range.get_description(), ""},
                                      fmt::format("a number from {} to {}", least, most))));
}

Option Option::positive() const {
  return Option(option_->check(saying(CLI::PositiveNumber, "a number above 0")));
}

Option Option::one_of(std::vector<std::string> words) const {
  const std::string expected = any_of_words(words);
  return Option(option_->check(saying(CLI::IsMember(std::move(words)), expected)));
}

Option Option::one_of(std::initializer_list<int> numbers) const {
  return Option(option_->check(saying(CLI::IsMember(numbers), any_of_words(numbers))));
}

Option Option::moment() const {
  const auto read = [](std::string& text) {
    if (text.empty()) return std::string();  // refused later
    const auto moment = parse_moment(text, wall_now());
    if (!moment) return moment.error().message;
    text = moment->for_daemon();
    return std::string();
  };
  return Option(option_->transform(CLI::Validator(read, "", "")));
}

Option Option::word(const char* word, int means) const {
  return Option(transform(option_, [word, means](std::string& text) {
    if (text == word) text = std::to_string(means);
  }));
}

Option Option::unit(const char* unit) const {
  return Option(transform(option_, [unit](std::string& text) {
    if (!text.empty()) text += unit;  // an empty value is refused later
  }));
}

Option Option::calls(std::function<void()> then) const {
  return Option(option_->each([then = std::move(then)](const std::string&) { then(); }));
}

Options Options::verb(const std::string& name, const char* help) const {
  return Options(app_->add_subcommand(name, help));
}

Options Options::group(const char* heading) const {
  return Options(app_->group(heading));
}

Options Options::requires_verb() const {
  return Options(app_->require_subcommand(1));
}

Options Options::alternatives(const char* name) const {
  return Options(app_->add_option_group(name)->require_option(1));
}

bool Options::given() const {
  return app_->count() > 0;
}

template <class T>
Option Options::option(const char* names, T& field, const char* help) const {
  CLI::Option* option = app_->add_option(names, field, help);
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    if (!option->get_positional()) option->allow_extra_args(false);
  }
  return Option(option);
}

template Option Options::option(const char*, std::string&, const char*) const;
template Option Options::option(const char*, std::vector<std::string>&, const char*) const;
template Option Options::option(const char*, int&, const char*) const;
template Option Options::option(const char*, double&, const char*) const;
template Option Options::option(const char*, std::int64_t&, const char*) const;
template Option Options::option(const char*, std::uint32_t&, const char*) const;
template Option Options::option(const char*, std::uint64_t&, const char*) const;
template Option Options::option(const char*, std::optional<int>&, const char*) const;
template Option Options::option(const char*, std::optional<double>&, const char*) const;
template Option Options::option(const char*, std::optional<std::uint32_t>&, const char*) const;

Option Options::list(const char* names, std::string& field, const char* help) const {
  const auto join = [&field](const std::vector<std::string>& words) {
    field = fmt::format("{}", fmt::join(words, ","));
  };
  CLI::Option* option = app_->add_option_function<std::vector<std::string>>(names, join, help);
  // A list of nothing, as "," is one, must not mean everything.
  option->check(CLI::Validator(
      [](std::string& text) {
        const auto parts = split(text, ',');
        const bool whole =
            text.empty() || std::ranges::count(parts, "") == 0;  // "" is refused later
        return whole ? std::string()
                     : fmt::format("expected names with commas between them; got \"{}\"",
                                   printable(text));
      },
      "", ""));
  if (!option->get_positional()) option->allow_extra_args(false);
  return Option(option);
}

Option Options::command(std::vector<std::string>& words, const char* help) const {
  return Option(transform(app_->add_option(kCommand, words, help), [](std::string& word) {
    if (word.starts_with(kProtected)) word.erase(0, 1);
  }));
}

Option Options::flag(const char* names, bool& field, const char* help) const {
  return Option(app_->add_flag(names, field, help));
}

Option Options::number_option(const char* names, const std::function<void(int)>& set,
                              const std::vector<std::pair<std::string, int>>& words,
                              const char* help) const {
  const std::map<std::string, int> numbers(words.begin(), words.end());
  std::vector<std::string> expected;
  for (const auto& [word, number] : words) expected.push_back(word);
  return Option(app_->add_option_function<int>(names, set, help)
                    ->transform(saying(CLI::CheckedTransformer(numbers), any_of_words(expected))));
}

Option Options::calling_flag(const char* names, std::function<void()> then,
                             const char* help) const {
  return Option(app_->add_flag_callback(names, std::move(then), help));
}

Option Options::find(const char* name) const {
  return Option(app_->get_option(name));
}

void Options::everywhere(const char* names, std::vector<std::string>& values, const char* help,
                         bool shown) const {
  const auto take = [&values](const std::string& value) { values.push_back(value); };
  CLI::Option* option = app_->add_option_function<std::string>(names, take, help);
  option->type_name("HOST");
  if (!shown) option->group("");
  for (CLI::App* below : app_->get_subcommands([](CLI::App*) { return true; })) {
    if (!below->get_name().empty()) Options(below).everywhere(names, values, help, shown);
  }
}

Options Options::calls(std::function<void()> then) const {
  return Options(app_->callback(std::move(then)));
}

Program::Program(const char* name, const char* help, const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->set_version_flag("--version", version, "Print the version and exit");
}

Program::~Program() = default;

Options Program::options() const {
  return Options(app_.get());
}

std::optional<int> Program::parse(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  put_home(words);
  WordReader reader(*app_);
  if (auto read = reader.read(words); !read) {
    return complain(read.error(), usage_of(reader.given()));
  }
  protect(words);
  std::ranges::reverse(words);
  try {
    app_->parse(std::move(words));
    refuse_empty_values(*app_);
  } catch (const CLI::ExtrasError&) {
    auto surplus = app_->remaining(true);
    std::erase(surplus, "--");
    const std::string first = surplus.empty() ? "--" : surplus.front();
    return complain({Errc::invalid, said_of(reader.given(), first)}, usage_of(reader.given()));
  } catch (const CLI::ParseError& error) {
    // Help is an answer (stdout, 0). Everything else is the user's mistake (stderr, 2).
    if (error.get_exit_code() == 0) return app_->exit(error);
    return complain({Errc::invalid, reader.in_our_words(error)}, usage_of(reader.given()));
  }
  return std::nullopt;
}

CompletableVerb Program::words() const {
  CompletableVerb program{app_->get_name(), app_->get_description(), {}, {}};
  add_words(*app_, program);
  return program;
}

}  // namespace gpuyard::cli
