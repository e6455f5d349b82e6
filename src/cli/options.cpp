#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/files.h"
#include "base/paths.h"
#include "base/result.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/help.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

std::string upper_case(std::string text) {
  for (char& c : text) c = to_upper(c);
  return text;
}

}  // namespace

// Adds an option with these names to CLI11's verb.
using AddToParser = std::function<CLI::Option*(CLI::App&, const std::string& names)>;

// An option: what help says of it, its rules, and what CLI11 reads of it. CLI11 gets the options of
// the verbs that are given, and no others: those of all cost most of the program's start.
struct OptionRecord {
  OptionText text;
  std::vector<const OptionRecord*> needs = {};
  std::vector<const OptionRecord*> excludes = {};
  // -h and --version, which are answered before CLI11 reads the words, have none.
  AddToParser add_to_parser = {};
  std::vector<std::function<void(CLI::Option&)>> rules = {};  // of CLI11, in their order
  bool takes_many = false;
  CLI::Option* parsed = nullptr;  // once its verb is given
  std::string parsed_name = {};   // "--num-gpus", as CLI11 knows it
  std::string argument = {};      // of an argument: its name in the source

  bool is(const std::string& name) const {
    return std::ranges::count(text.names, name) != 0 || std::ranges::count(text.former, name) != 0;
  }
  // It may be given more than once.
  void take_many() {
    takes_many = true;
    rules.push_back(
        [argument = text.argument](CLI::Option& option) { option.allow_extra_args(argument); });
  }
  bool answers() const { return !add_to_parser; }
  bool given() const { return parsed != nullptr && parsed->count() > 0; }
};

// A verb, or the program: as OptionRecord. Deques, because handles point to what they hold.
class Command {
 public:
  explicit Command(VerbText words) : text(std::move(words)) {
    add("-h,--help", "Print help", kGlobalOptions);
  }

  // `names` are as those of Options::option().
  OptionRecord& add(const std::string& names, const char* help, const std::string& heading) {
    OptionRecord& record = options.emplace_back();
    record.text.help = help;
    record.text.heading = heading;
    for (std::string& name : split(names, ',')) {
      if (name.starts_with('-')) {
        record.text.names.push_back(std::move(name));
      } else {
        record.text.argument = true;
        record.text.metavar = upper_case(name);
        record.argument = std::move(name);
      }
    }
    return record;
  }

  const OptionRecord* find(const std::string& name) const {
    const auto found =
        std::ranges::find_if(options, [&](const OptionRecord& option) { return option.is(name); });
    return found != options.end() ? &*found : nullptr;
  }

  Command* verb_called(const std::string& name) {
    const auto found = std::ranges::find_if(verbs, [&](const Command& verb) {
      return verb.text.name == name || std::ranges::count(verb.text.former, name) != 0;
    });
    return found != verbs.end() ? &*found : nullptr;
  }

  // Adds its options to CLI11's verb.
  void add_to(CLI::App& app) {
    if (on_given) app.callback(on_given);
    for (OptionRecord& option : options) {
      if (option.answers()) continue;
      // An argument has a long name as well, which WordReader writes for a former option name. It
      // is unknown on the command line.
      const std::string name =
          option.text.argument ? option.argument + "," + option.parsed_name : option.parsed_name;
      option.parsed = option.add_to_parser(app, name);
      for (const auto& rule : option.rules) rule(*option.parsed);
    }
  }

  VerbText text;  // without its options and verbs
  std::deque<OptionRecord> options;
  std::deque<Command> verbs;
  std::vector<const OptionRecord*> alternatives;  // of which one must be given
  std::optional<int> usage_exit_code;
  std::function<void()> on_given;
  bool given = false;
};

namespace {

// CLI11 takes a word like [1,2] for two words, even in another program's command.
constexpr char kProtected = '\x01';

// Values that are paths. A shell replaces ~ only at the beginning of a word, so that --state=~/yard
// arrives as it was written, and would make a directory called ~.
std::string with_home(const OptionText& option, const std::string& value) {
  constexpr std::array<std::string_view, 4> kPaths = {"FILE", "DIR", "PATH", "ADDRESS"};
  if (std::ranges::count(kPaths, option.metavar) == 0) return value;
  return expand_home(value, environment_variable("HOME")).value_or(value);
}

// Changes a value's text before it is read. CLI11's own transform adds a text to the help.
template <class Change>
CLI::Validator changing(Change&& change) {
  const auto changed = [change = std::forward<Change>(change)](std::string& text) {
    change(text);
    return std::string();
  };
  return {changed, "", ""};
}

void add_check(OptionRecord& option, CLI::Validator check) {
  option.rules.push_back([check = std::move(check)](CLI::Option& parsed) { parsed.check(check); });
}

void add_transform(OptionRecord& option, CLI::Validator change) {
  option.rules.push_back(
      [change = std::move(change)](CLI::Option& parsed) { parsed.transform(change); });
}

// Checks as CLI11's rule does, with an error text of our own.
CLI::Validator with_expectation(CLI::Validator rule, std::string expected) {
  const auto check = [rule = std::move(rule), expected = std::move(expected)](std::string& text) {
    const std::string given = text;
    if (rule(text).empty()) return std::string();
    return fmt::format("expected {}; got \"{}\"", expected, printable(given));
  };
  return {check, "", ""};
}

// The name in a message: an option's longest, an argument's metavar.
std::string name_of(const OptionRecord& option) {
  return option.text.argument ? option.text.metavar : option.text.names.back();
}

// The verbs that were given, from the program on.
struct VerbChain {
  std::vector<Command*> commands;

  Command& verb() const { return *commands.back(); }
  Command& program() const { return *commands.front(); }
  std::vector<std::string> below_program() const {
    std::vector<std::string> names;
    for (const Command* verb : std::span(commands).subspan(1)) names.push_back(verb->text.name);
    return names;
  }
  std::string path() const {  // "gpuyard lease take"
    std::string path = commands.front()->text.name;
    for (const std::string& name : below_program()) path += " " + name;
    return path;
  }
  Error usage_error(std::string message) const {
    return {Errc::invalid, std::move(message), "", path() + " --help"};
  }
  void add_to(CLI::App& program_parser) const {
    CLI::App* app = &program_parser;
    for (Command* command : commands) {
      if (command != commands.front()) app = app->add_subcommand(command->text.name);
      command->given = true;
      command->add_to(*app);
    }
  }
};

// Reads the words up to a lone -- as CLI11 will, and finds the first that is wrong. CLI11 takes the
// next word for the value of `--note=`, and goes on after a word that it does not know; what it
// complains of in the end need not be what was wrong. Puts today's names for those of earlier
// versions, which CLI11 does not know.
class WordReader {
 public:
  WordReader(Command& program, const std::vector<std::string>& words)
      : words_(words),
        own_words_(static_cast<std::size_t>(std::ranges::find(words, "--") - words.begin())),
        chain_{{&program}} {}

  // Returns the words for CLI11.
  Result<std::vector<std::string>> read() {
    while (position_ < own_words_) read_word(words_[position_++]);
    if (!error_ && own_words_ < words_.size() && command_at_) {
      error_ = chain_.usage_error(
          fmt::format("unexpected argument \"{}\" before --", printable(words_[*command_at_])));
    }
    if (error_) return *error_;
    for (std::size_t i = own_words_; i < words_.size(); ++i) {
      read_.push_back(words_[i].starts_with('[') ? kProtected + words_[i] : words_[i]);
    }
    return read_;
  }

  const VerbChain& given() const { return chain_; }
  // -h or --version, if it was given: it is an answer, whatever else was said.
  const OptionRecord* answer() const { return answer_; }

  // The option's name as the user wrote it: "-n", not "--num-gpus".
  std::string written_name(const OptionRecord& option) const {
    const auto name = names_.find(&option);
    return name != names_.end() ? name->second : name_of(option);
  }

  // Replaces the text of an error of CLI11 by our own.
  std::string translate_error(const CLI::ParseError& error) const {
    std::string message = error.what();
    for (const Command* verb : chain_.commands) {
      for (const OptionRecord& option : verb->options) {
        if (option.parsed == nullptr) continue;
        const std::string name = option.parsed->get_name();
        constexpr std::string_view kNotRead = "Could not convert: ";
        if (const auto begin = fmt::format("{}{} = ", kNotRead, name); message.starts_with(begin)) {
          return fmt::format("{}: expected a number; got \"{}\"", written_name(option),
                             printable(message.substr(begin.size())));
        }
        if (message.starts_with(name + ": "))
          return written_name(option) + message.substr(name.size());
      }
    }
    return message;
  }

  // Checks what CLI11 does not.
  Result<void> check_rules() const {
    for (const Command* verb : chain_.commands) {
      GPUYARD_TRY(check_rules_of(*verb));
    }
    if (chain_.verb().text.needs_verb) return missing_error("a command");
    return {};
  }

  // For a word that CLI11 has left over.
  Error unexpected_error(const std::string& word) const {
    return chain_.usage_error(fmt::format("unexpected argument \"{}\"", printable(word)));
  }

 private:
  void record_error(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void record_error(std::string message) { record_error(chain_.usage_error(std::move(message))); }

  static Error empty_argument_error() {
    return {Errc::invalid, "an argument is empty", "probably a variable that is not set"};
  }

  Error missing_error(std::string_view what) const {
    const auto names = chain_.below_program();
    if (names.empty()) return chain_.usage_error("no command given");
    return chain_.usage_error(fmt::format("{} needs {}", fmt::join(names, " "), what));
  }

  Result<void> check_rules_of(const Command& verb) const {
    for (const OptionRecord& option : verb.options) {
      if (!option.given()) {
        if (option.text.required) return missing_error(required_text(option.text));
        continue;
      }
      if (!option.text.command && std::ranges::count(option.parsed->results(), "") != 0) {
        return empty_argument_error();  // an unset shell variable must not silently mean the
                                        // default
      }
      for (const OptionRecord* other : option.excludes) {
        if (other->given()) return exclusion_error(option, *other);
      }
      for (const OptionRecord* other : option.needs) {
        if (!other->given()) {
          return chain_.usage_error(
              fmt::format("{} needs {}", written_name(option), name_of(*other)));
        }
      }
    }
    return check_alternatives(verb.alternatives);
  }

  static std::string required_text(const OptionText& option) {
    if (option.command) return "a command after --";
    return option.argument ? option.metavar : option.names.back() + " " + option.metavar;
  }

  Error exclusion_error(const OptionRecord& one, const OptionRecord& other) const {
    return chain_.usage_error(
        fmt::format("{} cannot be used with {}", written_name(one), written_name(other)));
  }

  Result<void> check_alternatives(std::span<const OptionRecord* const> alternatives) const {
    const OptionRecord* chosen = nullptr;
    std::vector<std::string> names;
    for (const OptionRecord* option : alternatives) {
      names.push_back(name_of(*option));
      if (!option->given()) continue;
      if (chosen != nullptr) return exclusion_error(*chosen, *option);
      chosen = option;
    }
    if (chosen == nullptr && !names.empty()) return missing_error(join_with_or(names));
    return {};
  }

  void read_word(const std::string& word) {
    const bool number = word.size() > 1 && word[1] >= '0' && word[1] <= '9';
    if (word.size() > 1 && word.starts_with('-') && !number) return read_option(word);
    if (Command* const below = chain_.verb().verb_called(word)) {
      chain_.commands.push_back(below);
      read_.push_back(below->text.name);
    } else {
      read_argument(word);
    }
  }

  // A word that is no option: another program's command has the rest of the line.
  void read_argument(const std::string& word) {
    read_.push_back(word);
    const auto& options = chain_.verb().options;
    const auto text = &OptionRecord::text;
    if (std::ranges::any_of(options, &OptionText::command, text)) {
      if (!command_at_) command_at_ = position_ - 1;
    } else if (!chain_.verb().verbs.empty() &&
               std::ranges::none_of(options, &OptionText::argument, text)) {
      record_error(unknown_error("command", word));
    } else if (std::ranges::none_of(options, &OptionText::argument, text)) {
      record_error(unexpected_error(word));
    } else if (word.empty()) {
      record_error(empty_argument_error());
    }
  }

  void read_option(const std::string& word) {
    if (command_at_) {
      return record_error(Error{Errc::invalid,
                                fmt::format("{} follows the command {}", printable(word),
                                            printable(words_[*command_at_])),
                                "options of the command stand after --", line_with_dashes()});
    }
    const bool is_long = word.starts_with("--");
    const std::size_t name_end = is_long ? std::min(word.find('='), word.size()) : 2;
    const std::string name = word.substr(0, name_end);
    const OptionRecord* const option = chain_.verb().find(name);
    if (option == nullptr) return record_error(unknown_error("option", name));
    const bool again = !names_.try_emplace(option, name).second;
    std::string value = word.substr(std::min(name_end + (is_long ? 1 : 0), word.size()));
    if (option->text.metavar.empty()) return read_flag(*option, word, value, again);
    if (again && !option->takes_many) {
      return record_error(name + ": given more than once");
    }
    if (name_end == word.size()) {
      if (position_ == own_words_) return record_error(name + ": a value is missing");
      value = words_[position_++];
    }
    if (value.empty()) return record_error(name + ": the value is empty");
    // In one word, because the value may begin with a dash.
    const bool assigned = option->parsed_name.starts_with("--");
    read_.push_back(option->parsed_name + (assigned ? "=" : "") + with_home(option->text, value));
  }

  void read_flag(const OptionRecord& flag, const std::string& word, const std::string& value,
                 bool again) {
    if (flag.answers() && answer_ == nullptr) answer_ = &flag;
    const bool is_long = word.starts_with("--");
    if (is_long && word.ends_with('=')) return record_error(names_[&flag] + ": the value is empty");
    if (is_long && !value.empty()) return record_error(names_[&flag] + ": takes no value");
    if (!flag.answers() && !again) read_.push_back(flag.parsed_name);
    if (!is_long && !value.empty()) read_option("-" + value);
  }

  static bool has_option(const Command& verb, const std::string& option) {
    return verb.find(option) != nullptr ||
           std::ranges::any_of(verb.verbs,
                               [&](const Command& below) { return has_option(below, option); });
  }

  // Says that an option of commands stands before the command, and writes the line with what is
  // before the command behind it.
  Error misplaced_error(const std::string& option) const {
    Error error = chain_.usage_error(option + " must come after the command");
    for (std::size_t i = position_; i < own_words_; ++i) {
      const Command* const verb = chain_.program().verb_called(words_[i]);
      if (verb == nullptr) continue;
      if (!has_option(*verb, option)) break;
      std::vector<std::string> line = words_;
      const auto at = [&](std::size_t n) { return line.begin() + static_cast<std::ptrdiff_t>(n); };
      std::rotate(at(position_ - 1), at(i), at(own_words_));
      error.hint = line_of(line);
      break;
    }
    return error;
  }

  // Says that a word is not known, and writes the line with the word that may be meant.
  Error unknown_error(std::string_view what, const std::string& word) const {
    const bool is_option = what == "option";
    if (is_option && chain_.commands.size() == 1 && has_option(chain_.program(), word)) {
      return misplaced_error(word);
    }
    const std::string_view dashes = is_option ? "--" : "";
    std::vector<std::string_view> known;
    for (const OptionRecord& option : chain_.verb().options) {
      for (const std::string_view name : option.text.names) {
        // A mistyped word must not lead to an override of others.
        const bool offered = option.text.shown && name.starts_with("--") && name != "--force";
        if (is_option && offered) known.push_back(name.substr(dashes.size()));
      }
    }
    for (const Command& verb : chain_.verb().verbs) {
      if (!is_option) known.push_back(verb.text.name);
    }
    Error error = chain_.usage_error(fmt::format("unknown {} \"{}\"", what, printable(word)));
    const std::string_view meant =
        word.starts_with(dashes) ? nearest_word(std::string_view(word).substr(dashes.size()), known)
                                 : std::string_view();
    if (meant.empty()) return error;
    std::vector<std::string> line = words_;
    line[position_ - 1].replace(dashes.size(), word.size() - dashes.size(), meant);
    error.hint = line_of(line);
    return error;
  }

  std::string line_with_dashes() const {
    std::vector<std::string> line = words_;
    line.insert(line.begin() + static_cast<std::ptrdiff_t>(*command_at_), "--");
    return line_of(line);
  }

  std::string line_of(const std::vector<std::string>& words) const {
    std::string line = chain_.commands.front()->text.name;
    for (const std::string& word : words) line += " " + quote_shell_word(word);
    return line;
  }

  const std::vector<std::string>& words_;
  const std::size_t own_words_;  // how many stand before a lone --
  std::size_t position_ = 0;     // of the next word
  VerbChain chain_;
  std::vector<std::string> read_;
  std::optional<std::size_t> command_at_;  // of another program's command that has no --
  const OptionRecord* answer_ = nullptr;
  std::optional<Error> error_;
  std::map<const OptionRecord*, std::string> names_;
};

VerbText text_of(const Command& command) {
  VerbText text = command.text;
  for (const OptionRecord& option : command.options) text.options.push_back(option.text);
  for (const Command& verb : command.verbs) text.verbs.push_back(text_of(verb));
  return text;
}

std::size_t help_width() {
  constexpr std::size_t kMaxWidth = 100;  // longer lines are hard to read
  const std::size_t columns = Screen::of_stdout().columns;
  return columns == 0 ? kMaxWidth : std::min(columns, kMaxWidth);
}

}  // namespace

Option Option::required() const {
  record_->text.required = true;
  return *this;
}

Option Option::metavar(const char* name) const {
  record_->text.metavar = name;
  return *this;
}

Option Option::default_is(const char* text) const {
  record_->text.default_value = text;
  return *this;
}

Option Option::environment(const char* name) const {
  record_->text.environment = name;
  return *this;
}

Option Option::details(const char* text) const {
  record_->text.details = text;
  return *this;
}

Option Option::formerly(const char* names) const {
  record_->text.former = split(names, ' ');
  return *this;
}

Option Option::hidden() const {
  record_->text.shown = false;
  return *this;
}

Option Option::needs(Option other) const {
  record_->needs.push_back(other.record_);
  return *this;
}

Option Option::excludes(Option other) const {
  record_->excludes.push_back(other.record_);
  return *this;
}

Option Option::range(int least, int most) const {
  add_check(*record_, with_expectation(CLI::Range(least, most),
                                       fmt::format("a whole number from {} to {}", least, most)));
  return *this;
}

Option Option::range(double least, double most) const {
  // CLI11 would accept "nan", because it is neither below nor above a bound.
  const CLI::Validator range = CLI::Range(least, most);
  const auto within = [range](std::string& text) {
    return text.find_first_of("nN") == text.npos ? range(text) : std::string("not a number");
  };
  add_check(*record_,
            with_expectation({within, "", ""}, fmt::format("a number from {} to {}", least, most)));
  return *this;
}

Option Option::positive() const {
  const auto above = [](std::string& text) {
    const auto number = parse_number<std::uint64_t>(text);
    return std::string(number && *number > 0 ? "" : "no");
  };
  add_check(*record_, with_expectation({above, "", ""}, "a whole number of at least 1"));
  return *this;
}

Option Option::one_of(std::vector<std::string> words) const {
  const std::string expected = join_with_or(words);
  add_check(*record_, with_expectation(CLI::IsMember(std::move(words)), expected));
  return *this;
}

Option Option::one_of(std::initializer_list<int> numbers) const {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  add_check(*record_,
            with_expectation(CLI::IsMember(std::vector<int>(numbers)), join_with_or(words)));
  return *this;
}

Option Option::moment() const {
  return reads([](std::string& text) -> Result<void> {
    text = GPUYARD_TRY(parse_moment(text, wall_now())).api_text();
    return {};
  });
}

Option Option::reads(std::function<Result<void>(std::string&)> read) const {
  const auto check = [read = std::move(read)](std::string& text) {
    const auto done = read(text);
    return done ? std::string() : done.error().text();
  };
  add_transform(*record_, CLI::Validator(check, "", ""));
  return *this;
}

Option Option::word(const char* word, int means) const {
  add_transform(*record_, changing([word, means](std::string& text) {
    if (text == word) text = std::to_string(means);
  }));
  return *this;
}

Option Option::unit(const char* unit) const {
  add_transform(*record_, changing([unit](std::string& text) { text += unit; }));
  return *this;
}

Option Option::calls(std::function<void()> on_parsed) const {
  record_->rules.push_back([on_parsed = std::move(on_parsed)](CLI::Option& parsed) {
    parsed.each([on_parsed](const std::string&) { on_parsed(); });
  });
  return *this;
}

Options Options::verb(const std::string& name, const char* help) const {
  return Options(&command_->verbs.emplace_back(VerbText{name, help}));
}

Options Options::group(const char* heading) const {
  command_->text.heading = heading;
  return *this;
}

Options Options::explain(const char* text) const {
  command_->text.explanation = text;
  return *this;
}

Options Options::usage(std::initializer_list<const char*> lines) const {
  command_->text.usage.assign(lines.begin(), lines.end());
  return *this;
}

Options Options::example(const char* command, const char* remark) const {
  command_->text.examples.push_back({command, remark});
  return *this;
}

Options Options::exit_codes(const char* text) const {
  command_->text.exit_codes = text;
  return *this;
}

Options Options::formerly(const char* name) const {
  command_->text.former.emplace_back(name);
  return *this;
}

Options Options::usage_exit_code(int code) const {
  command_->usage_exit_code = code;
  return *this;
}

Options Options::heading(const char* name) const {
  Options options = *this;
  options.heading_ = name;
  return options;
}

Options Options::requires_verb() const {
  command_->text.needs_verb = true;
  return *this;
}

Options Options::alternatives() const {
  Options options = *this;
  options.alternative_ = true;
  return options;
}

bool Options::given() const {
  return command_->given;
}

OptionRecord* Options::add(const std::string& names, const char* help, AddToParser add) const {
  OptionRecord& record = command_->add(names, help, heading_);
  if (alternative_) command_->alternatives.push_back(&record);
  record.add_to_parser = std::move(add);
  record.parsed_name =
      record.text.argument ? "--argument-" + record.argument : record.text.names.back();
  return &record;
}

template <class T>
Option Options::option(const char* names, T& field, const char* help) const {
  OptionRecord* record = add(names, help, [&field](CLI::App& app, const std::string& parsed) {
    return app.add_option(parsed, field);
  });
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    record->text.repeated = record->text.argument;
    record->take_many();
  }
  return with_value(record);
}

template Option Options::option(const char*, std::string&, const char*) const;
template Option Options::option(const char*, std::vector<std::string>&, const char*) const;
template Option Options::option(const char*, int&, const char*) const;
template Option Options::option(const char*, double&, const char*) const;
template Option Options::option(const char*, std::int64_t&, const char*) const;
template Option Options::option(const char*, std::uint32_t&, const char*) const;
template Option Options::option(const char*, std::uint64_t&, const char*) const;
template Option Options::option(const char*, std::optional<int>&, const char*) const;
template Option Options::option(const char*, std::optional<std::int64_t>&, const char*) const;
template Option Options::option(const char*, std::optional<double>&, const char*) const;
template Option Options::option(const char*, std::optional<std::uint32_t>&, const char*) const;

Option Options::list(const char* names, std::string& field, const char* help) const {
  const auto join = [&field](const std::vector<std::string>& words) {
    field = fmt::format("{}", fmt::join(words, ","));
  };
  OptionRecord* record = add(names, help, [join](CLI::App& app, const std::string& parsed) {
    return app.add_option_function<std::vector<std::string>>(parsed, join);
  });
  // A list of nothing, as "," is one, must not mean everything.
  add_check(*record,
            CLI::Validator(
                [](std::string& text) {
                  const auto parts = split(text, ',');
                  const bool whole =
                      text.empty() || std::ranges::count(parts, "") == 0;  // "" is refused later
                  return whole ? std::string()
                               : fmt::format("expected names with commas between them; got \"{}\"",
                                             printable(text));
                },
                "", ""));
  record->take_many();
  return with_value(record);
}

Option Options::command(std::vector<std::string>& words, const char* help) const {
  OptionRecord* record = add("command", help, [&words](CLI::App& app, const std::string& parsed) {
    return app.add_option(parsed, words);
  });
  add_transform(*record, changing([](std::string& word) {
    if (word.starts_with(kProtected)) word.erase(0, 1);
  }));
  record->text.command = true;
  record->text.metavar = "COMMAND [ARG...]";
  return Option(record);
}

Option Options::appending(const char* names, std::vector<std::string>& values,
                          const char* help) const {
  return with_value(add(names, help, [&values](CLI::App& app, const std::string& parsed) {
    const auto take = [&values](const std::string& value) { values.push_back(value); };
    return app.add_option_function<std::string>(parsed, take);
  }));
}

Option Options::flag(const char* names, bool& field, const char* help) const {
  return Option(add(names, help, [&field](CLI::App& app, const std::string& parsed) {
    return app.add_flag(parsed, field);
  }));
}

Option Options::number_option(const char* names, const std::function<void(int)>& set,
                              const std::vector<std::pair<std::string, int>>& words,
                              const char* help) const {
  const std::map<std::string, int> numbers(words.begin(), words.end());
  std::vector<std::string> expected;
  for (const auto& [word, number] : words) expected.push_back(word);
  OptionRecord* record = add(names, help, [set](CLI::App& app, const std::string& parsed) {
    return app.add_option_function<int>(parsed, set);
  });
  add_transform(*record,
                with_expectation(CLI::CheckedTransformer(numbers), join_with_or(expected)));
  return with_value(record);
}

Option Options::calling_flag(const char* names, std::function<void()> on_given,
                             const char* help) const {
  return Option(
      add(names, help, [on_given = std::move(on_given)](CLI::App& app, const std::string& parsed) {
        return app.add_flag_callback(parsed, on_given);
      }));
}

Option Options::with_value(OptionRecord* record) {
  // Until metavar() names it better.
  if (record->text.metavar.empty()) record->text.metavar = "VALUE";
  return Option(record);
}

Option Options::find(const char* name) const {
  return Option(&*std::ranges::find_if(command_->options, [name](const OptionRecord& option) {
    return option.is(name) || option.argument == name;
  }));
}

std::vector<Options> Options::subtree() const {
  std::vector<Options> verbs = {*this};
  for (Command& below : command_->verbs) {
    std::ranges::move(Options(&below).subtree(), std::back_inserter(verbs));
  }
  return verbs;
}

Options Options::calls(std::function<void()> on_parsed) const {
  command_->on_given = std::move(on_parsed);
  return *this;
}

Program::Program(const char* name, const char* help, std::string version)
    : version_(std::move(version)) {
  root_ = std::make_unique<Command>(VerbText{name, help});
  root_->add("--version", "Print the version", kGlobalOptions);
}

Program::~Program() = default;

Options Program::options() const {
  return Options(root_.get());
}

std::optional<int> Program::parse(int argc, const char* const* argv) {
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  WordReader reader(*root_, given);
  auto words = reader.read();
  usage_exit_code_ = reader.given().verb().usage_exit_code;
  const auto refuse = [&](const Error& error) {
    const int code = print_error(error);
    return usage_exit_code_.value_or(code);
  };
  if (const OptionRecord* answer = reader.answer()) {
    print(answer->is("--version") ? formatted("{}\n", version_)
                                  : help_of(text(), reader.given().below_program(), help_width()));
    return 0;
  }
  if (!words) return refuse(words.error());
  parser_ = std::make_unique<CLI::App>("", root_->text.name);
  parser_->set_help_flag();           // the verbs below get none, either
  parser_->require_subcommand(0, 1);  // an argument may be called as another verb is
  reader.given().add_to(*parser_);
  std::ranges::reverse(*words);
  try {
    parser_->parse(*std::move(words));
  } catch (const CLI::ExtrasError&) {
    auto surplus = parser_->remaining(true);
    std::erase(surplus, "--");
    return refuse(reader.unexpected_error(surplus.empty() ? "--" : surplus.front()));
  } catch (const CLI::ParseError& error) {
    return refuse({Errc::invalid, reader.translate_error(error)});
  }
  if (const auto good = reader.check_rules(); !good) return refuse(good.error());
  return std::nullopt;
}

VerbText Program::text() const {
  return text_of(*root_);
}

}  // namespace gpuyard::cli
