// How a verb declares its options: their names, help and rules. Only options.cpp knows CLI11, which
// reads the command line and costs seconds in each file that includes it.
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

// A flag, an option or a positional, and the rules for it. A handle: copies mean the same option,
// as long as its Program lives.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option type_name(const char* name) const;  // what the help calls its value
  Option needs(Option other) const;
  Option excludes(Option other) const;  // and the other excludes this one

  Option range(int least, int most) const;
  Option range(double least, double most) const;
  Option positive() const;
  Option one_of(std::vector<std::string> words) const;
  Option one_of(std::initializer_list<int> numbers) const;

  Option word(const char* word, int means) const;
  Option unit(const char* unit) const;  // is added to the value
  // Beside its own field.
  template <class Enum>
  Option sets(Enum& field, std::type_identity_t<Enum> value) const {
    return calls([&field, value = std::move(value)] { field = value; });
  }

 private:
  Option calls(std::function<void()> then) const;

  CLI::Option* option_;
};

// What may follow a verb: options and more verbs. A handle, as Option. Every field, and the record
// it belongs to, outlives the parsing. The help shows all in the order in which they were added.
class Options {
 public:
  explicit Options(CLI::App* app) : app_(app) {}

  Options verb(const std::string& name, const char* help) const;
  Options group(const char* heading) const;      // under which the help shows this verb
  Options requires_verb() const;                 // one of the verbs below must follow
  Options alternatives(const char* name) const;  // options of which one must be given
  bool given() const;

  // When this verb is given.
  template <class Enum>
  Options sets(Enum& field, std::type_identity_t<Enum> value) const {
    return calls([&field, value = std::move(value)] { field = value; });
  }

  // `names` is "--long", "-s,--long" or, of a positional, its name alone. Of a vector, a named
  // option takes one value each time it is given. For the types that options.cpp lists.
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
  // Words that come with commas or blanks between them, or each with an option of its own: one text
  // with commas.
  Option list(const char* names, std::string& field, const char* help) const;
  // Somebody else's command: its words are taken as they are.
  Option command(std::vector<std::string>& words, const char* help) const;

  Option flag(const char* names, bool& field, const char* help) const;
  // One that sets another field than its own.
  template <class T>
  Option flag(const char* names, T& field, std::type_identity_t<T> value, const char* help) const {
    return calling_flag(names, [&field, value = std::move(value)] { field = value; }, help);
  }

  Option find(const char* name) const;  // one that was added

 private:
  Options calls(std::function<void()> then) const;
  Option number_option(const char* names, const std::function<void(int)>& set,
                       const std::vector<std::pair<std::string, int>>& words,
                       const char* help) const;
  Option calling_flag(const char* names, std::function<void()> then, const char* help) const;

  CLI::App* app_;
};

// The program and all that may follow it.
class Program {
 public:
  Program(const char* name, const char* help);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Options options() const;

  // Fills the fields. An exit code where there is nothing more to do: help or what is wrong was
  // printed.
  std::optional<int> parse(int argc, const char* const* argv);

  CompletableVerb words() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace gpuyard::cli
