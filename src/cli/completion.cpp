// gpuyard completion
#include "cli/completion.h"

#include <fmt/format.h>

#include "base/files.h"
#include "cli/options.h"
#include "cli/screen/output.h"
#include "cli/verbs.h"

namespace gpuyard::cli {
namespace {

// The options that help shows, without arguments that have no name.
std::vector<OptionText> named_options(const VerbText& verb) {
  std::vector<OptionText> options;
  for (const OptionText& option : verb.options) {
    if (option.shown && !option.names.empty()) options.push_back(option);
  }
  return options;
}

// Returns the words that may follow, verbs first.
std::string words_after(const VerbText& verb) {
  std::vector<std::string> words;
  for (const auto& below : verb.verbs) words.push_back(below.name);
  for (const auto& option : named_options(verb)) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void add_cases(std::string& out, const std::string& path, const VerbText& verb) {
  for (const auto& below : verb.verbs) {
    const std::string its_path = path.empty() ? below.name : path + " " + below.name;
    out += fmt::format("    \"{}\") words=\"{}\" ;;\n", its_path, words_after(below));
    add_cases(out, its_path, below);
  }
}

// After an option that takes a value, the shell's own completion of files is the best guess.
void add_valued_options(std::vector<std::string>& names, const VerbText& verb) {
  for (const auto& option : named_options(verb)) {
    if (!option.metavar.empty())
      names.insert(names.end(), option.names.begin(), option.names.end());
  }
  for (const auto& below : verb.verbs) add_valued_options(names, below);
}

// For bash and zsh: mapfile is bash's alone, and `path` is the PATH of zsh.
std::string bash_script(const VerbText& root) {
  std::string cases;
  add_cases(cases, "", root);
  std::vector<std::string> valued;
  add_valued_options(valued, root);
  return fmt::format(
      "_{0}() {{\n"
      "  local word verb=\"\" words=\"{1}\" i\n"
      "  case \"${{COMP_WORDS[COMP_CWORD-1]}}\" in\n"
      "    {2}) COMPREPLY=(); return ;;\n"
      "  esac\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=\"${{COMP_WORDS[i]}}\"\n"
      "    [[ \"$word\" == -* ]] && continue\n"
      "    [[ \" $words \" == *\" $word \"* ]] || continue\n"
      "    verb=\"${{verb:+$verb }}$word\"\n"
      "    case \"$verb\" in\n"
      "{3}"
      "    esac\n"
      "  done\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      root.name, words_after(root), fmt::join(valued, "|"), cases);
}

std::string quoted_for_fish(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void add_for_fish(std::string& out, const std::string& program, const std::string& condition,
                  const VerbText& verb) {
  const std::string start =
      fmt::format("complete -c {} -n {}", program, quoted_for_fish(condition));
  for (const auto& option : named_options(verb)) {
    out += start;
    for (const auto& name : option.names) {
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    out += fmt::format("{} -d {}\n", option.metavar.empty() ? "" : " -r",
                       quoted_for_fish(option.help));
  }
  for (const auto& below : verb.verbs) {
    out += fmt::format("{} -f -a {} -d {}\n", start, below.name, quoted_for_fish(below.help));
  }
}

std::string fish_script(const VerbText& root) {
  std::string out;
  add_for_fish(out, root.name, "__fish_use_subcommand", root);
  for (const auto& verb : root.verbs) {
    const std::string seen = "__fish_seen_subcommand_from " + verb.name;
    std::string none_below = seen;
    if (!verb.verbs.empty()) none_below += "; and not __fish_seen_subcommand_from";
    for (const auto& below : verb.verbs) none_below += " " + below.name;
    add_for_fish(out, root.name, none_below, verb);
    for (const auto& below : verb.verbs) {
      add_for_fish(out, root.name, seen + "; and __fish_seen_subcommand_from " + below.name, below);
    }
  }
  return out;
}

}  // namespace

std::string completion_script(Shell shell, const VerbText& root) {
  if (shell == Shell::fish) return fish_script(root);
  if (shell == Shell::bash) return bash_script(root);
  return "#compdef " + root.name + "\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(root);
}

Options add_completion(Options program, CompletionVerb& verb) {
  const Options completion =
      program.verb("completion", "Print a shell completion script, or write the man pages");
  completion.requires_verb();
  const auto shell = [&](const char* name, Shell value, const char* summary, const char* example) {
    completion.verb(name, summary).sets(verb.shell, value).example(example);
    completion.example(example);
  };
  shell("bash", Shell::bash, "Print the completion script for bash",
        "gpuyard completion bash > ~/.local/share/bash-completion/completions/gpuyard");
  shell("zsh", Shell::zsh, "Print the completion script for zsh",
        "gpuyard completion zsh > ~/.zfunc/_gpuyard");
  shell("fish", Shell::fish, "Print the completion script for fish",
        "gpuyard completion fish > ~/.config/fish/completions/gpuyard.fish");
  const Options manual = completion.verb("man", "Write the man pages to a directory");
  manual.option("directory", verb.manual, "Existing directory to write to")
      .metavar("DIR")
      .required();
  manual.example("gpuyard completion man /usr/local/share/man/man1");
  return completion;
}

int run(const CompletionVerb& verb) {
  if (verb.manual.empty()) {
    print(Printable::lines(completion_script(verb.shell, verb.program)));
    return 0;
  }
  for (const ManualPage& page : manual_of(verb.program)) {
    const auto written = replace_file(verb.manual + "/" + page.file, page.text, 0644);
    if (!written) return print_error(written.error());
  }
  return 0;
}

}  // namespace gpuyard::cli
