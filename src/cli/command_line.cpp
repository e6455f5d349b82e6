// The list of verbs. Each verb's options are in its own file.
#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <deque>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/read/json_output.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/smi/smi_words.h"
#include "cli/verbs.h"

namespace gpuyard::cli {
namespace {

// Lists verbs in the order and the groups of --help.
class VerbList {
 public:
  // `hosts` gets the values of -H, which may stand before and after a verb.
  VerbList(Options program, std::vector<std::string>& hosts) : program_(program), hosts_(hosts) {
    add_host(program_, true);
  }

  // Adds the verb of this name only, if there is one.
  void add_verb(std::string_view name) {
    only_ = name;
    add_verbs(*this);
  }
  void add_all() { add_verb(""); }
  bool empty() const { return verbs_.empty(); }

  template <class... AnyVerb>
  void add(const char* heading, const VerbRow<AnyVerb>&... rows) {
    (add_row(heading, rows), ...);
  }

  // Returns the chosen verb; parsing made sure that there is exactly one.
  Verb& given() {
    const auto options = std::ranges::find_if(options_, &Options::given);
    return verbs_.at(static_cast<std::size_t>(options - options_.begin()));
  }

 private:
  template <class AnyVerb>
  void add_row(const char* heading, const VerbRow<AnyVerb>& row) {
    if (!only_.empty() && row.name != only_) return;
    Verb& verb = verbs_.emplace_back(std::in_place_type<AnyVerb>);
    options_.push_back(row.add_to(program_, std::get<AnyVerb>(verb)).group(heading));
    // Every verb knows -H, so that it can say why it has no use for it; only some show it.
    const bool asks = scope_of(verb) == VerbScope::asks;
    for (const Options& below : options_.back().subtree()) add_host(below, asks);
  }

  void add_host(const Options& verb, bool shown) {
    const Option host =
        verb.heading(kGlobalOptions)
            .appending(
                "-H,--host", hosts_,
                "Connect to a daemon: ssh://[USER@]HOST, https://HOST or a name from hosts.toml")
            .metavar("HOST")
            .environment("GPUYARD_HOST");
    if (!shown) host.hidden();
  }

  Options program_;
  std::string_view only_;  // empty: all
  std::vector<std::string>& hosts_;
  std::deque<Verb> verbs_;  // a deque, because options write to their addresses
  std::vector<Options> options_;
};

}  // namespace

namespace {

// Returns the place of the word "smi", the command; -H and its value may stand before it. 0: it is
// another command.
int place_of_smi(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "smi") return i;
    if (word == "-H" || word == "--host") ++i;
    if (!word.starts_with("-H") && !word.starts_with("--host")) return 0;
  }
  return 0;
}

// Whether the answer may depend on verbs other than the first word: it is what shells complete, or
// help, which has its global options in the order of all verbs. -nh is a request for help as well.
bool shows_all_verbs(const std::vector<std::string_view>& words) {
  const auto own_words = std::ranges::subrange(words.begin(), std::ranges::find(words, "--"));
  return words.front() == "completion" || std::ranges::any_of(own_words, [](std::string_view word) {
           const bool letters = word.starts_with('-') && !word.starts_with("--");
           return word.starts_with("--help") || (letters && word.find('h') != word.npos);
         });
}

std::variant<Verb, int> parse_words(int argc, const char* const* argv);

// The options of nvidia-smi are not of the form that all other commands have.
std::variant<Verb, int> parse_smi(int argc, const char* const* argv, int place) {
  const auto translated = smi_words({argv + place + 1, argv + argc});
  if (!translated) return print_error(translated.error());
  std::vector<const char*> words(argv, argv + place + 1);
  for (const std::string& word : *translated) words.push_back(word.c_str());
  return parse_words(static_cast<int>(words.size()), words.data());
}

}  // namespace

std::variant<Verb, int> parse_command_line(int argc, const char* const* argv) {
  if (const int place = place_of_smi(argc, argv); place != 0) return parse_smi(argc, argv, place);
  return parse_words(argc, argv);
}

namespace {

std::variant<Verb, int> parse_words(int argc, const char* const* argv) {
  if (argc == 1) return parse_words(2, std::array{argv[0], "--help"}.data());
  if (std::string_view(argv[1]) == "help") {
    std::vector<const char*> words(argv, argv + argc);
    std::rotate(words.begin() + 1, words.begin() + 2, words.end());
    words.back() = "--help";
    return parse_words(argc, words.data());
  }
  Program program(
      "gpuyard",
      "Monitor, share and control the GPUs of a machine, and alert when something is wrong.",
      fmt::format("gpuyard {}", kVersion));
  program.options()
      .requires_verb()
      .usage({"gpuyard [-H HOST] COMMAND [OPTIONS] [ARG...]"})
      .example("gpuyard top --simulate 8", "Try the dashboard without a GPU")
      .example("gpuyard run -n 2 -- ./train.sh", "Wait for two GPUs and run on them")
      .example("gpuyard -H ssh://lab devices", "List the GPUs of another machine")
      .exit_codes("On a terminal, gpuyard without a command is gpuyard top.");
  std::vector<std::string> hosts;
  VerbList verbs(program.options(), hosts);
  // The options of all verbs take longer than most verbs, and their memory stays with the program.
  if (!shows_all_verbs({argv + 1, argv + argc})) verbs.add_verb(argv[1]);
  if (verbs.empty()) verbs.add_all();
  if (const auto code = program.parse(argc, argv)) return *code;
  Verb& given = verbs.given();
  const auto selected =
      select_daemon(given, {hosts, {argv + 1, argv + argc}, Environment::current()});
  if (!selected) {
    const int code = print_error(selected.error());
    return program.usage_exit_code().value_or(code);
  }
  std::visit(
      [&](auto& verb) {
        if constexpr (requires { verb.line; }) {
          verb.line = "gpuyard";
          for (int i = 1; i < argc; ++i) verb.line += " " + quote_shell_word(argv[i]);
        }
      },
      given);
  if (auto* completion = std::get_if<CompletionVerb>(&given)) {
    completion->program = program.text();
  }
  return std::move(given);
}

}  // namespace

Options add_version(Options program, VersionVerb& verb) {
  const Options version = program.verb("version", "Show the version of gpuyard");
  add_json(version, verb.json);
  version.example("gpuyard version").example("gpuyard version --json");
  return version;
}

int run(const VersionVerb& verb) {
  print(verb.json ? json_line(VersionAnswer{}) : formatted("gpuyard {}\n", kVersion));
  return 0;
}

}  // namespace gpuyard::cli
