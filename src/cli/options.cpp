#include "cli/options.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/result.h"
#include "base/text.h"
#include "cli/completion.h"
#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

constexpr const char* kCommand = "command";

// CLI11 takes a word like [1,2] for two words, even in another program's command.
constexpr char kProtected = '\x01';

std::vector<std::string> protected_words(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  for (auto word = std::ranges::find(words, "--"); word != words.end(); ++word) {
    if (word->starts_with('[')) word->insert(0, 1, kProtected);
  }
  return words;
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

// The last verb that was given, and the words that lead to it. Groups of options have no name.
struct Given {
  const CLI::App* verb;
  std::string above;  // "gpuyard lease"
  std::string path() const {
    return above.empty() ? verb->get_name() : above + " " + verb->get_name();
  }
};

Given given_verb(const CLI::App& program) {
  Given given{&program, ""};
  for (bool deeper = true; deeper;) {
    const auto below = given.verb->get_subcommands();
    const auto named =
        std::ranges::find_if(below, [](const CLI::App* verb) { return !verb->get_name().empty(); });
    deeper = named != below.end();
    if (deeper) given = {*named, given.path()};
  }
  return given;
}

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
std::string said_of(const CLI::App& program, std::string word) {
  const Given given = given_verb(program);
  const bool option = word.starts_with('-');
  if (option) word.erase(std::min(word.find('='), word.size()));
  const auto known = known_words(*given.verb, option);
  std::string text;
  if (option) {
    text = fmt::format("`{}` has no option {}", given.path(), word);
  } else if (!known.empty()) {
    text = fmt::format("`{}` has no verb {}", given.path(), word);
  } else {
    text = fmt::format("`{}` takes no \"{}\"", given.path(), word);
  }
  const auto meant = nearest(word, {known.begin(), known.end()});
  return meant.empty() ? text : fmt::format("{}; did you mean {}?", text, meant);
}

// Returns CLI11's usage line for the last verb that was given.
std::string usage_of(const CLI::App& program) {
  const Given given = given_verb(program);
  const std::string help = given.verb->help(given.above);
  const std::size_t begin = std::min(help.find("Usage:"), help.size());
  const std::string line = help.substr(begin, help.find('\n', begin) - begin);
  return fmt::format("  {}\n  `{} --help` says more.", line, given.path());
}

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
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::range(double least, double most) const {
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::positive() const {
  return Option(option_->check(CLI::PositiveNumber));
}

Option Option::one_of(std::vector<std::string> words) const {
  return Option(option_->check(CLI::IsMember(std::move(words))));
}

Option Option::one_of(std::initializer_list<int> numbers) const {
  return Option(option_->check(CLI::IsMember(numbers)));
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
  return Option(app_->add_option_function<int>(names, set, help)
                    ->transform(CLI::CheckedTransformer(numbers)));
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
  auto words = protected_words(argc, argv);
  std::ranges::reverse(words);
  try {
    app_->parse(std::move(words));
    refuse_empty_values(*app_);
  } catch (const CLI::ParseError& error) {
    // Help is an answer (stdout, 0). Everything else is the user's mistake (stderr, 2).
    const auto unknown = app_->remaining(true);
    if (error.get_exit_code() == 0 || unknown.empty()) {
      return app_->exit(error) == 0 ? 0 : exit_code_of(Errc::invalid);
    }
    return complain({Errc::invalid, said_of(*app_, unknown.front())}, usage_of(*app_));
  }
  return std::nullopt;
}

CompletableVerb Program::words() const {
  CompletableVerb program{app_->get_name(), app_->get_description(), {}, {}};
  add_words(*app_, program);
  return program;
}

}  // namespace gpuyard::cli
