// Declares a verb's options: their names, help and rules. Only options.cpp knows CLI11, which reads
// the command line and costs seconds in each file that includes it.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpuyard::cli {

struct VerbText;
class Command;
struct OptionRecord;

template <class Enum>
struct EnumWord {
  const char* word;
  Enum value;
};

// A flag, an option or a positional, and its rules. A handle: copies mean the same option, as long
// as its Program lives.
class Option {
 public:
  explicit Option(OptionRecord* record) : record_(record) {}

  Option required() const;
  // The name of its value: N, WATTS, SIZE, DURATION (a length), TIME (a moment), FILE, DIR, PATH,
  // ADDRESS:PORT, HOST, URL, NAME, TEXT, USER, ID, GPU,..., FILTER, WHEN.
  Option metavar(const char* name) const;
  // The help's text ends in "[default: TEXT]" and "[env: NAME]".
  Option default_is(const char* text) const;
  Option environment(const char* name) const;
  // A longer text, for the manual only.
  Option details(const char* text) const;
  // Names of earlier versions, with blanks between them: "--gpus". They are accepted, but neither
  // help nor completion nor the manual has them.
  Option formerly(const char* names) const;
  Option hidden() const;  // is accepted, but never shown
  Option needs(Option other) const;
  Option excludes(Option other) const;  // works both ways

  Option range(int least, int most) const;
  Option range(double least, double most) const;
  Option positive() const;
  Option one_of(std::vector<std::string> words) const;
  Option one_of(std::initializer_list<int> numbers) const;

  // Takes a moment as parse_moment() reads it, and stores it as the daemon reads it.
  Option moment() const;
  // Takes a value that `read` accepts, and may change; its error follows the option's name.
  Option reads(std::function<Result<void>(std::string&)> read) const;

  Option word(const char* word, int means) const;
  Option unit(const char* unit) const;  // is added to the value
  // Sets a field beside the option's own.
  template <class Enum>
  Option sets(Enum& field, std::type_identity_t<Enum> value) const {
    return calls([&field, value = std::move(value)] { field = value; });
  }

 private:
  Option calls(std::function<void()> on_parsed) const;

  OptionRecord* record_;
};

// The options and verbs that may follow a verb. A handle, as Option. Every field, and its record,
// outlives the parsing. The help shows all in the order in which they were added.
class Options {
 public:
  explicit Options(Command* command) : command_(command) {}

  // Adds a verb. Its help is the summary of everything: an imperative without a period, of at most
  // 75 characters.
  Options verb(const std::string& name, const char* help) const;
  Options group(const char* heading) const;  // the heading for this verb in its parent's help
  // These say more of this verb in its help, and return it again.
  Options explain(const char* text) const;  // at most five lines, below the summary
  // Replaces the derived usage line. A tab separates a line from its remark:
  // "gpuyard power [GPU,...]\tShow limits, ranges and settings".
  Options usage(std::initializer_list<const char*> lines) const;
  // The verb's help shows examples in the order of the calls.
  Options example(const char* command, const char* remark = "") const;
  Options exit_codes(const char* text) const;  // only those that mean something special
  Options formerly(const char* name) const;    // as that of an option, for this verb
  Options usage_exit_code(int code) const;     // of wrong usage, if another one than that of errors
  // The same verb; options that are added to what is returned stand under this heading in its help.
  // "GPUs", "Queue", "Output"; options without one stand under "Options".
  Options heading(const char* name) const;
  Options requires_verb() const;  // one of the verbs below must follow
  // The same verb; of the options that are added to what is returned, one must be given.
  Options alternatives() const;
  bool given() const;

  // Sets the field if this verb is given.
  template <class Enum>
  Options sets(Enum& field, std::type_identity_t<Enum> value) const {
    return calls([&field, value = std::move(value)] { field = value; });
  }

  // `names` is "--long", "-s,--long" or, for a positional, its name alone. A named option with a
  // vector takes one value each time it is given. For the types that options.cpp lists.
  template <class T>
  Option option(const char* names, T& field, const char* help) const;
  template <class Enum>
  Option option(const char* names, Enum& field, std::initializer_list<EnumWord<Enum>> words,
                const char* help) const {
    std::vector<std::pair<std::string, int>> numbers;
    for (const auto& [word, value] : words) numbers.emplace_back(word, static_cast<int>(value));
    const auto set = [&field](int value) { field = static_cast<Enum>(value); };
    return number_option(names, set, numbers, help);
  }
  // Takes words with commas or blanks between them, or each with an option of its own; stores one
  // text with commas.
  Option list(const char* names, std::string& field, const char* help) const;
  // Takes another program's command: its words are kept as they are.
  Option command(std::vector<std::string>& words, const char* help) const;

  Option flag(const char* names, bool& field, const char* help) const;
  // Adds a flag that sets a field to `value`.
  template <class T>
  Option flag(const char* names, T& field, std::type_identity_t<T> value, const char* help) const {
    return calling_flag(names, [&field, value = std::move(value)] { field = value; }, help);
  }

  // Each value that is given goes to the end of `values`, which several options may share.
  Option appending(const char* names, std::vector<std::string>& values, const char* help) const;

  Option find(const char* name) const;  // an option that was added, or an argument

  // Returns this verb and all that are below it by now.
  std::vector<Options> subtree() const;

 private:
  Options calls(std::function<void()> on_parsed) const;
  Option number_option(const char* names, const std::function<void(int)>& set,
                       const std::vector<std::pair<std::string, int>>& words,
                       const char* help) const;
  Option calling_flag(const char* names, std::function<void()> on_given, const char* help) const;
  OptionRecord* add(
      const std::string& names, const char* help,
      std::function<CLI::Option*(CLI::App&, const std::string& names)> add_to_parser) const;
  static Option with_value(OptionRecord*);

  Command* command_;
  const char* heading_ = "";
  bool alternative_ = false;  // its options are among those of which one must be given
};

// The program and all verbs and options that may follow it.
class Program {
 public:
  // `version` is what --version prints.
  Program(const char* name, const char* help, std::string version);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Options options() const;

  // Fills the fields. Returns an exit code if there is nothing more to do, after printing help or
  // an error.
  std::optional<int> parse(int argc, const char* const* argv);
  // Returns that of the verb that parse() has found, if it has one of its own.
  std::optional<int> usage_exit_code() const { return usage_exit_code_; }

  VerbText text() const;

 private:
  std::unique_ptr<Command> root_;
  std::unique_ptr<CLI::App> parser_;  // once parse() has found which verbs are given
  std::string version_;
  std::optional<int> usage_exit_code_;
};

}  // namespace gpuyard::cli
