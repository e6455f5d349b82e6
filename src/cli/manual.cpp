// The manual: mdoc(7) from the words of the command line and the keys of the configuration.
#include "cli/completion.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "daemon/config/keys.h"

namespace gpuyard::cli {
namespace {

// Lines of text. What mdoc would take for a request or an escape is written so that it is none.
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
  }
  return out + "\n";
}

std::string date() {
  const auto given = number_in<std::int64_t>(environment_variable("SOURCE_DATE_EPOCH"));
  const std::time_t when = given ? static_cast<std::time_t>(*given) : std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&when, &utc);
  return fmt::format("{:%B} {}, {:%Y}", utc, utc.tm_mday, utc);
}

std::string head(std::string_view name, int section, const std::string& what) {
  std::string title(name);
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  // The summary of a page begins small and has no full stop, unless it begins with a name.
  std::string summary = what;
  const bool is_word = summary.size() > 1 && summary[1] >= 'a' && summary[1] <= 'z';
  if (is_word) summary[0] = static_cast<char>(summary[0] | 0x20);
  if (summary.ends_with('.')) summary.pop_back();
  return fmt::format(".Dd {}\n.Dt {} {}\n.Os\n.Sh NAME\n.Nm {}\n.Nd {}\n", date(), title, section,
                     name, summary);
}

// "Fl -socket Ar PATH", "Ar gpus ..."
std::string usage_of(const CompletableOption& option) {
  std::string usage;
  for (const std::string& name : option.names) {
    if (!usage.empty()) usage += " , ";
    usage += name.starts_with('-') ? "Fl " + name.substr(1) : "Ar " + name;
  }
  if (option.names.front().starts_with('-')) {
    if (!option.value.empty()) usage += " Ar " + option.value;
  } else if (option.repeated) {
    usage += " ...";
  }
  return usage;
}

std::string list_of(const std::vector<CompletableOption>& options) {
  if (options.empty()) return "";
  std::string list = ".Bl -tag -width Ds\n";
  for (const CompletableOption& option : options) {
    list += ".It " + usage_of(option) + "\n" + text_line(option.help);
  }
  return list + ".El\n";
}

std::string synopsis_of(const std::string& path, const CompletableVerb& verb) {
  std::string synopsis = ".Nm " + path + "\n";
  if (!verb.options.empty()) synopsis += ".Op Ar options\n";
  for (const CompletableOption& word : verb.positionals) {
    synopsis += (word.required ? "." : ".Op ") + usage_of(word) + "\n";
  }
  return synopsis;
}

// A verb with verbs below it is not called by itself.
void add_synopses(std::string& out, const std::string& path, const CompletableVerb& verb) {
  if (verb.verbs.empty()) out += synopsis_of(path, verb);
  for (const CompletableVerb& below : verb.verbs) add_synopses(out, path + " " + below.name, below);
}

void add_descriptions(std::string& out, const std::string& path, const CompletableVerb& verb) {
  out += text_line(verb.help + ".") + list_of(verb.positionals) + list_of(verb.options);
  for (const CompletableVerb& below : verb.verbs) {
    const std::string its_path = path + " " + below.name;
    out += ".Ss " + its_path + "\n";
    add_descriptions(out, its_path, below);
  }
}

ManualPage page_of(const std::string& program, const CompletableVerb& verb) {
  const std::string name = program + "-" + verb.name;
  std::string text = head(name, 1, verb.help) + ".Sh SYNOPSIS\n";
  add_synopses(text, program + " " + verb.name, verb);
  text += ".Sh DESCRIPTION\n";
  add_descriptions(text, program + " " + verb.name, verb);
  const bool runs = std::ranges::any_of(verb.positionals, [](const CompletableOption& word) {
    return word.names.front() == "command";
  });
  text +=
      fmt::format(".Sh EXIT STATUS\n{1}.Xr {0} 1 .\n.Sh SEE ALSO\n.Xr {0} 1\n", program,
                  runs ? "That of the command or, if the command could not be started, that of\n"
                       : "That of\n");
  return {name + ".1", text};
}

constexpr std::string_view kEnvironment = R"(.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev GPUYARD_HOST
Daemon to connect to, as
.Fl -host
specifies it.
.It Ev GPUYARD_SOCKET
Path of the daemon's socket.
.It Ev GPUYARD_TOKEN , GPUYARD_TOKEN_FILE
The token for the one daemon that is named, over https, or the file that
holds it.
In the path,
.Ql {}
stands for the daemon's host; many daemons are shown only such a file.
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

ManualPage page_of_program(const CompletableVerb& program) {
  std::string text = head(program.name, 1, program.help) + ".Sh SYNOPSIS\n.Nm " + program.name +
                     "\n.Op Ar options\n.Ar verb ...\n.Sh DESCRIPTION\n" + text_line(program.help) +
                     list_of(program.options);
  std::string heading;
  for (const CompletableVerb& verb : program.verbs) {
    if (verb.heading != heading) {
      if (!heading.empty()) text += ".El\n";
      text += ".Ss " + (heading = verb.heading) + "\n.Bl -tag -width Ds\n";
    }
    text += fmt::format(".It Xr {}-{} 1\n{}", program.name, verb.name, text_line(verb.help + "."));
  }
  text += ".El\n" + std::string(kEnvironment);
  return {program.name + ".1", text + ".Sh SEE ALSO\n.Xr gpuyard.toml 5 ,\n.Xr gpuyard 8\n"};
}

// The table's own words; what a value may be, they say where it matters.
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

std::vector<ManualPage> manual_of(const CompletableVerb& program) {
  std::vector<ManualPage> pages = {page_of_program(program), page_of_configuration()};
  for (const CompletableVerb& verb : program.verbs) pages.push_back(page_of(program.name, verb));
  return pages;
}

}  // namespace gpuyard::cli
