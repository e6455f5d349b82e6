// The manual: mdoc(7) from the words of the command line and the keys of the configuration.
#include "cli/completion.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <map>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/text.h"
#include "cli/shared_options.h"
#include "daemon/config/keys.h"

namespace gpuyard::cli {
namespace {

// Lines of text. Escapes what mdoc would take for a request or an escape.
std::string text_line(std::string_view text) {
  constexpr std::size_t kWidth = 78;
  std::string out;
  std::size_t begun = 0;
  for (const std::string& word : split(text, ' ')) {
    // A sentence begins a line of its own.
    const bool fits = out.size() - begun + word.size() < kWidth && !out.ends_with('.');
    if (!out.empty()) out += fits ? ' ' : '\n';
    if (!fits) begun = out.size();
    if (out.size() == begun && (word.starts_with('.') || word.starts_with('\''))) out += "\\&";
    for (std::size_t at = 0; at < word.size(); ++at) {
      const bool dashes = word[at] == '-' && word.substr(at, 2) == "--";
      if (dashes || word[at] == '\\') out += '\\';
      out += word[at] == '\\' ? 'e' : word[at];
      if (dashes) out += "\\-", ++at;
    }
    if (word == "e.g.") out += "\\&";  // no sentence ends here
  }
  return out + "\n";
}

std::string date() {
  const auto given = parse_number<std::int64_t>(environment_variable("SOURCE_DATE_EPOCH"));
  const std::time_t when = given ? static_cast<std::time_t>(*given) : std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&when, &utc);
  return fmt::format("{:%B} {}, {:%Y}", utc, utc.tm_mday, utc);
}

std::string head(std::string_view name, int section, const std::string& what) {
  std::string title(name);
  for (char& c : title) c = to_upper(c);
  // The summary of a page begins small and has no full stop, unless it begins with a name.
  std::string summary = what;
  const bool is_word = summary.size() > 1 && summary[1] >= 'a' && summary[1] <= 'z';
  if (is_word) summary[0] = static_cast<char>(summary[0] | 0x20);
  if (summary.ends_with('.')) summary.pop_back();
  return fmt::format(".Dd {}\n.Dt {} {}\n.Os\n.Sh NAME\n.Nm {}\n.Nd {}\n", date(), title, section,
                     name, summary);
}

// A line of a synopsis or of the program's own words: escaped, but never broken.
std::string unbroken(std::string_view text) {
  std::string line;
  for (const char c : text) {
    line += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
}

// "Fl -socket Ar PATH", "Ar FIELD..."
std::string macros_of(const OptionText& option) {
  std::string macros;
  if (option.argument) {
    OptionText unnamed = option;
    unnamed.names.clear();
    macros = "Ar " + unbroken(names_of(unnamed));
  }
  for (const std::string& name : option.names) {
    macros += fmt::format("{}Fl {}", macros.empty() ? "" : " , ", name.substr(1));
  }
  const bool value = !option.names.empty() && !option.metavar.empty();
  return macros + (value ? " Ar " + unbroken(option.metavar) : "");
}

std::string list_of(const std::vector<OptionText>& options) {
  std::string list;
  for (const OptionText& option : options) {
    if (!option.shown) continue;
    list += ".It " + macros_of(option) + "\n" + text_line(text_of(option));
    if (!option.details.empty()) list += text_line(option.details);
  }
  return list.empty() ? "" : ".Bl -tag -width Ds\n" + list + ".El\n";
}

// Arguments come first.
std::vector<OptionText> ordered(const std::vector<OptionText>& options) {
  std::vector<OptionText> sorted;
  for (const bool argument : {true, false}) {
    std::ranges::copy_if(options, std::back_inserter(sorted),
                         [&](const OptionText& option) { return option.argument == argument; });
  }
  return sorted;
}

// The place to break a shell's line: before the last blank within the width that no quotes
// enclose.
std::size_t break_in(std::string_view line) {
  constexpr std::size_t kWidth = 60;
  if (line.size() <= kWidth) return line.npos;
  std::size_t best = line.npos;
  char quote = 0;
  for (std::size_t at = 0; at < kWidth; ++at) {
    const char c = line[at];
    if (c == ' ' && quote == 0) best = at;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    }
  }
  return best;
}

// Commands that can be pasted.
std::string display_of(const std::vector<std::string>& commands) {
  std::string display = ".Bd -literal -offset indent\n";
  for (const std::string& command : commands) {
    std::string_view rest = command;
    for (std::size_t at = break_in(rest); at != rest.npos; at = break_in(rest)) {
      display += unbroken(rest.substr(0, at)) + " \\e\n    ";
      rest.remove_prefix(at + 1);
    }
    display += unbroken(rest) + "\n";
  }
  return display + ".Ed\n";
}

// A verb that needs another one below it is not called by itself.
void add_synopses(std::string& out, const std::string& path, const VerbText& verb) {
  if (!verb.needs_verb) {
    for (const std::string& usage : usage_of(verb, path)) {
      std::string_view rest = usage;
      const std::string_view command = take_until('\t', rest);
      const std::string_view name = command.starts_with(path) ? std::string_view(path) : command;
      out += fmt::format(".Nm {}\n", name);
      const std::string_view words = trim(command.substr(name.size()), " ");
      if (!words.empty()) out += ".Li \"" + unbroken(words) + "\"\n";
    }
  }
  for (const VerbText& below : verb.verbs) add_synopses(out, path + " " + below.name, below);
}

void add_descriptions(std::string& out, const std::string& path, const VerbText& verb) {
  out += text_line(verb.help + (verb.help.ends_with('.') ? "" : "."));
  if (!verb.explanation.empty()) out += ".Pp\n" + text_line(verb.explanation);
  out += list_of(ordered(verb.options));
  if (!verb.exit_codes.empty()) out += ".Pp\n" + text_line(verb.exit_codes);
  std::vector<std::string> examples;
  for (const auto& [command, remark] : verb.examples) {
    if (!remark.empty()) examples.push_back("# " + remark);
    examples.push_back(command);
  }
  if (!examples.empty())
    out += fmt::format(".Pp\n{}:\n", examples.size() == 1 ? "Example" : "Examples") +
           display_of(examples);
  for (const VerbText& below : verb.verbs) {
    const std::string its_path = path + " " + below.name;
    out += ".Ss " + its_path + "\n";
    add_descriptions(out, its_path, below);
  }
}

ManualPage page_of(const std::string& program, const VerbText& verb) {
  const std::string name = program + "-" + verb.name;
  std::string text = head(name, 1, verb.help) + ".Sh SYNOPSIS\n";
  add_synopses(text, program + " " + verb.name, verb);
  text += ".Sh DESCRIPTION\n";
  add_descriptions(text, program + " " + verb.name, verb);
  const bool runs = std::ranges::any_of(verb.options, &OptionText::command);
  text +=
      fmt::format(".Sh EXIT STATUS\n{1}.Xr {0} 1 .\n.Sh SEE ALSO\n.Xr {0} 1\n", program,
                  runs ? "That of the command or, if the command could not be started, that of\n"
                       : "That of\n");
  return {name + ".1", text};
}

// The variables that stand for options, by name.
void add_variables(const VerbText& verb, std::map<std::string, std::string>& help) {
  for (const OptionText& option : verb.options) {
    if (option.shown && !option.environment.empty()) help.emplace(option.environment, option.help);
  }
  for (const VerbText& below : verb.verbs) add_variables(below, help);
}

std::string list_of_variables(const VerbText& program) {
  std::map<std::string, std::string> help;
  add_variables(program, help);
  std::string list;
  for (const auto& [name, text] : help) {
    list += fmt::format(".It Ev {}\n{}", name, text_line(text + "."));
  }
  return list;
}

constexpr std::string_view kEnvironment = R"(.It Ev GPUYARD_TOKEN , GPUYARD_TOKEN_FILE
Token for the HTTPS daemon of
.Fl H ,
or the file with the token.
In the path,
.Ql {}
stands for the host name.
.Nm Cm fleet
uses only a file with
.Ql {} .
.It Ev NO_COLOR
If set to a non-empty value, disables coloured output.
.El
.Sh FILES
.Bl -tag -width Ds
.It Pa /etc/gpuyard/gpuyard.toml
Configuration of the daemon; see
.Xr gpuyard.toml 5 .
.It Pa ~/.config/gpuyard/hosts.toml
Names of remote daemons.
.It Pa /run/gpuyard/gpuyard.sock
Socket of the system daemon.
.It Pa /var/lib/gpuyard
Persistent state of that daemon.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds
.It 0
Success.
.It 1
Failure.
.It 2
Invalid command line.
.It 3
Not supported by this GPU or driver.
.It 4
Permission denied.
.It 5
No driver, no GPU or no daemon.
.It 6
Not found.
.It 7
A requested condition was not met.
.El
)";

ManualPage page_of_program(const VerbText& program) {
  std::string text = head(program.name, 1, program.help) + ".Sh SYNOPSIS\n.Nm " + program.name +
                     "\n.Op Fl H Ar HOST\n.Ar COMMAND\n.Op Ar OPTIONS\n.Op Ar ARG...\n.Sh "
                     "DESCRIPTION\n" +
                     text_line(program.help) + ".Ss Global options\n" +
                     text_line("Each command lists the ones it takes.") +
                     list_of(global_options(program));
  std::string heading;
  for (const VerbText& verb : program.verbs) {
    if (verb.heading != heading) {
      if (!heading.empty()) text += ".El\n";
      text += ".Ss " + (heading = verb.heading) + "\n.Bl -tag -width Ds\n";
    }
    text += fmt::format(".It Xr {}-{} 1\n{}", program.name, verb.name, text_line(verb.help + "."));
  }
  text += ".El\n.Sh ENVIRONMENT\n.Bl -tag -width Ds\n" + list_of_variables(program) +
          std::string(kEnvironment);
  return {program.name + ".1", text + ".Sh SEE ALSO\n.Xr gpuyard.toml 5 ,\n.Xr gpuyard 8\n"};
}

// The table's own words, which name the allowed values where it matters.
ManualPage page_of_configuration() {
  constexpr std::array kTypes = {"string", "list of strings", "integer", "boolean", "number"};
  std::string text = head("gpuyard.toml", 5, "Configuration of the gpuyard daemon");
  text +=
      ".Sh DESCRIPTION\nThe daemon reads\n.Pa /etc/gpuyard/gpuyard.toml\nand then, unless it is "
      "the system daemon, the user's own configuration file.\nBoth files are optional.\n.Nm "
      "gpuyard Cm config init\nprints a file with every key and its default;\n.Nm gpuyard Cm "
      "config validate\nchecks the configuration.\nKeys marked\n.Dq live\ntake effect on SIGHUP, "
      "all others when the daemon restarts.\n";
  std::string_view section;
  for (const config::Key& key : config::keys()) {
    if (key.section != section) {
      if (!section.empty()) text += ".El\n";
      text += fmt::format(".Ss Table {}\n.Bl -tag -width Ds\n", section = key.section);
    }
    const char* type = kTypes.at(static_cast<std::size_t>(key.type));
    text += fmt::format(".It Ic {} No ({}{})\n{}", key.name, type, key.live ? ", live" : "",
                        text_line(key.help));
  }
  return {"gpuyard.toml.5", text + ".El\n.Sh SEE ALSO\n.Xr gpuyard 1 ,\n.Xr gpuyard 8\n"};
}

}  // namespace

std::vector<ManualPage> manual_of(const VerbText& program) {
  std::vector<ManualPage> pages = {page_of_program(program), page_of_configuration()};
  for (const VerbText& verb : program.verbs) pages.push_back(page_of(program.name, verb));
  return pages;
}

}  // namespace gpuyard::cli
