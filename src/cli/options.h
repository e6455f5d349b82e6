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

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpuyard::cli {

struct CompletableVerb;

template <class Enum>
struct EnumWord {
  const char* word;
  Enum value;
};

// A flag, an option or a positional, and its rules. A handle: copies mean the same option, as long
// as its Program lives.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option type_name(const char* name) const;  // the help's name for its value
  Option needs(Option other) const;
  Option excludes(Option other) const;  // works both ways

  Option range(int least, int most) const;
  Option range(double least, double most) const;
  Option positive() const;
  Option one_of(std::vector<std::string> words) const;
  Option one_of(std::initializer_list<int> numbers) const;

  // Takes a moment as parse_moment() reads it, and stores it as the daemon reads it.
  Option moment() const;

  Option word(const char* word, int means) const;
  Option unit(const char* unit) const;  // is added to the value
  // Sets a field beside the option's own.
  template <class Enum>
  Option sets(Enum& field, std::type_identity_t<Enum> value) const {
    return calls([&field, value = std::move(value)] { field = value; });
  }

 private:
  Option calls(std::function<void()> then) const;

  CLI::Option* option_;
};

// The options and verbs that may follow a verb. A handle, as Option. Every field, and its record,
// outlives the parsing. The help shows all in the order in which they were added.
class Options {
 public:
  explicit Options(CLI::App* app) : app_(app) {}

  Options verb(const std::string& name, const char* help) const;
  Options group(const char* heading) const;      // the help's heading for this verb
  Options requires_verb() const;                 // one of the verbs below must follow
  Options alternatives(const char* name) const;  // options of which one must be given
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

  Option find(const char* name) const;  // an option that was added

  // Adds an option with a value to this verb and to all that are below it by now. Each value that
  // is given goes to the end of `values`. The help and completion show it if `shown`.
  void everywhere(const char* names, std::vector<std::string>& values, const char* help,
                  bool shown) const;

 private:
  Options calls(std::function<void()> then) const;
  Option number_option(const char* names, const std::function<void(int)>& set,
                       const std::vector<std::pair<std::string, int>>& words,
                       const char* help) const;
  Option calling_flag(const char* names, std::function<void()> then, const char* help) const;

  CLI::App* app_;
};

// The program and all verbs and options that may follow it.
class Program {
 public:
  // `version` is what --version prints.
  Program(const char* name, const char* help, const std::string& version);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Options options() const;

  // Fills the fields. Returns an exit code if there is nothing more to do, after printing help or
  // an error.
  std::optional<int> parse(int argc, const char* const* argv);

  CompletableVerb words() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace gpuyard::cli
