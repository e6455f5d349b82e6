// gpuyard slurm install: the scripts that Slurm runs, and the lines of slurm.conf that name them.
// Slurm's own files are the site's: they are looked at, and never written.
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr std::string_view kDefaultDirectory = "/etc/gpuyard/slurm";

struct Script {
  std::string_view name;
  std::string_view verb;
  std::string_view key;  // of slurm.conf
  bool needed = true;
  // The verb in the script that is written. An older gpuyard, which a downgrade or a shared folder
  // may bring, refuses a newer verb, and Slurm drains a node whose prolog fails.
  std::string_view written = verb;
};
constexpr std::array kScripts = {
    Script{"health", "health", "HealthCheckProgram"},
    Script{"prolog", "prolog", "Prolog", true, "begin"},
    Script{"epilog", "epilog", "Epilog", true, "end"},
    Script{"epilog-slurmctld", "epilog-ctld", "EpilogSlurmctld", false}};

constexpr std::array kSlurmPrograms = {"scontrol", "sinfo",    "squeue",
                                       "sacct",    "sacctmgr", "slurmd"};

constexpr std::string_view kTrustReason = "Slurm's hooks run it as root";

// Returns what to do about a program of Slurm that another user could change. If Slurm has a folder
// of its own that belongs to another user, such as SlurmUser, root can take it over.
std::string slurm_path_advice(const std::string& program) {
  constexpr std::array<std::string_view, 3> kShared = {"/", "/usr", "/usr/local"};
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(program, failed);
  std::filesystem::path folder = real.parent_path();
  if (folder.filename() == "bin" || folder.filename() == "sbin") folder = folder.parent_path();
  const bool own = std::ranges::find(kShared, folder.string()) == kShared.end() &&
                   check_trusted_by_root(folder.parent_path());
  // If the program itself is trusted, a link to it is not.
  if (failed || !own || check_trusted_by_root(real)) {
    return "install Slurm where only root may write, and name that folder first in PATH";
  }
  return fmt::format(
      "if {0} holds Slurm's programs and nothing else, give it to root, as slurmd runs as root, "
      "too: `chown -R root:root {0} && chmod -R go-w {0}`",
      quote_shell_word(folder.string()));
}

// Returns the path of a program of Slurm, even if it is not run because another user could change
// it.
std::optional<std::string> hook_program_path(const char* name) {
  if (const auto found = find_program(name)) return *found;
  for (const std::string_view folder : kDefaultFolders) {
    std::string path = fmt::format("{}/{}", folder, name);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

// Returns the PATH of the hooks: the folders of Slurm's programs now, then the usual ones.
// Errc::invalid if another user could change a program of Slurm.
Result<std::string> path_of_hooks() {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  };
  for (const char* const name : kSlurmPrograms) {
    const auto program = hook_program_path(name);
    if (!program) continue;
    GPUYARD_TRY(check_trusted_by_root(*program, kTrustReason, slurm_path_advice(*program)));
    add(parent_directory(*program));
  }
  for (const std::string& usual : trusted_default_folders()) add(usual);
  return fmt::format("{}", fmt::join(folders, ":"));
}

// Returns the program that the hooks run, which is this one.
Result<std::string> program_of_hooks() {
  std::string program = program_path();
  if (::access(program.c_str(), X_OK) != 0) return system_error("checking " + program);
  const std::string mend = fmt::format(
      "install the package, or `install -m 755 {} /usr/bin/gpuyard` and run `/usr/bin/gpuyard "
      "slurm install`",
      quote_shell_word(program));
  GPUYARD_TRY(check_trusted_by_root(program, kTrustReason, mend));
  return program;
}

// A program that was removed must not block jobs. The hooks ignore the caller's PATH and the other
// variables that change how root's shell runs.
std::string text_of(const Script& script, const std::string& program, const std::string& path) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Written by `gpuyard slurm install`; Slurm gives its hooks no PATH.\n"
      "unset IFS ENV BASH_ENV CDPATH\n"
      "PATH={1}\n"
      "export PATH\n"
      "[ -x {0} ] || exit 0\n"
      "exec {0} slurm {2}\n",
      quote_shell_word(program), quote_shell_word(path), script.written);
}

Result<void> check_directory(const std::string& directory) {
  return check_trusted_by_root(directory, "root runs the hooks in it",
                               fmt::format("{} is the usual folder", kDefaultDirectory));
}

Result<void> write_scripts(const std::string& directory) {
  constexpr unsigned kScriptMode = 0755;
  const auto program = GPUYARD_TRY(program_of_hooks());
  const auto path = GPUYARD_TRY(path_of_hooks());
  // Checked before anything is created there, and again once it exists.
  GPUYARD_TRY(check_directory(directory));
  GPUYARD_TRY(make_directories(directory, kScriptMode));
  GPUYARD_TRY(check_directory(directory));
  for (const Script& script : kScripts) {
    auto done = replace_file(fmt::format("{}/{}", directory, script.name),
                             text_of(script, program, path), kScriptMode);
    if (!done) return done;
  }
  return {};
}

// The values of a key in `scontrol show config`, which newer ones number: "Prolog[0] = /a".
std::vector<std::string> values_of(std::string_view config, std::string_view key) {
  std::vector<std::string> values;
  for (const std::string& line : split(config, '\n')) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with(key) || equals == std::string::npos) continue;
    const std::string_view rest =
        trim(std::string_view(line).substr(key.size(), equals - key.size()));
    const std::string value(trim(std::string_view(line).substr(equals + 1)));
    if ((rest.empty() || rest.starts_with('[')) && value != "(null)") values.push_back(value);
  }
  return values;
}

// The files that a pattern of slurm.conf means.
std::vector<std::string> files_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return files;
}

// Splits a line of a shell script into words as the shell does, without its comment. Separators of
// commands also separate words.
std::vector<std::string> words_of_line(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool parts = std::string_view(" \t\r;&|()<>`").find(c) != std::string_view::npos;
    if (quote == 0 && parts) {
      in_word = false;
      continue;
    }
    if (!in_word && c == '#') break;
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != '\'' && c == '\\' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  return words;
}

bool is_verb_of(const Script& script, std::string_view word) {
  return word == script.verb || word == script.written;
}

// Also finds the call in a word that is another shell's line, as in sh -c 'gpuyard slurm prolog'.
bool has_call(std::string_view line, const Script& script) {
  constexpr std::string_view kCall = "slurm ";
  for (auto at = line.find(kCall); at != line.npos; at = line.find(kCall, at + 1)) {
    const std::string_view after = line.substr(at + kCall.size());
    const auto end = after.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
    if (is_verb_of(script, after.substr(0, end))) return true;
  }
  return false;
}

// Returns whether the hook is one of ours, or a site's own that calls gpuyard or a script of ours.
// Errors: the called script does not exist, or another user could change what the hook runs.
Result<bool> has_own_hook(const std::string& file, const Script& script, bool follows = true) {
  constexpr std::size_t kMaxConfigBytes = std::size_t{256} * 1024;
  const auto text = read_file(file, kMaxConfigBytes);
  const std::string usual = fmt::format("{}/{}", kDefaultDirectory, script.name);
  if (!text) return file == usual ? Result<bool>(text.error()) : false;
  bool ours = false;
  auto trusted = check_trusted_by_root(file);
  for (const std::string& line : split(*text, '\n')) {
    if (trim(line).starts_with('#')) continue;
    ours = ours || has_call(line, script);
    const auto words = words_of_line(line);
    for (std::size_t i = 0; i < words.size() && trusted; ++i) {
      const std::string& word = words[i];
      if (!word.starts_with('/')) continue;
      if (i + 2 < words.size() && words[i + 1] == "slurm" && is_verb_of(script, words[i + 2])) {
        trusted = check_trusted_by_root(word, kTrustReason);
      } else if (follows && word.ends_with(fmt::format("/{}", script.name))) {
        const auto called = has_own_hook(word, script, false);
        ours = ours || !called || *called;
        if (!called) trusted = called.error();
      }
    }
  }
  if (ours && !trusted) return std::move(trusted).error();
  return ours;
}

struct ConfigCheck {
  std::string line;     // as slurm.conf is to have it
  std::string problem;  // "": it is there
  bool needed = true;
};

ConfigCheck check_script_line(std::string_view config, const Script& script,
                              const std::string& directory) {
  ConfigCheck checked{fmt::format("{}={}/{}", script.key, directory, script.name), "",
                      script.needed};
  const auto values = values_of(config, script.key);
  for (const std::string& value : values) {
    for (const std::string& file : files_of(value)) {
      const auto ours = has_own_hook(file, script);
      if (ours && !*ours) continue;
      checked.line = fmt::format("{}={}", script.key, value);
      if (!ours) checked.problem = ours.error().text();
      return checked;
    }
  }
  checked.problem =
      values.empty()
          ? fmt::format("missing{}", script.needed ? "" : " (optional, for AdminComment)")
          : fmt::format("is {}, which does not run `gpuyard slurm {}`: add it",
                        fmt::join(values, ", "), script.verb);
  return checked;
}

// The first value of a key; "" where it has none.
std::string value_of(std::string_view config, std::string_view key) {
  const auto values = values_of(config, key);
  return values.empty() ? "" : values.front();
}

ConfigCheck check_interval(std::string_view config) {
  const std::string value = value_of(config, "HealthCheckInterval");
  if (value.empty() || value.starts_with("0 ")) {
    return {"HealthCheckInterval=30", "is 0, so no check runs"};
  }
  return {"HealthCheckInterval=" + value.substr(0, value.find(' ')), ""};
}

ConfigCheck check_flags(std::string_view config) {
  const std::string value = value_of(config, "PrologFlags");
  const bool early = value.find("Alloc") != value.npos || value.find("Contain") != value.npos;
  if (early) return {"PrologFlags=" + value, ""};
  return {"PrologFlags=Alloc", "lacks Alloc, so a job is seen only at its first step"};
}

// The lines without a verdict, because Slurm's configuration could not be read.
int print_unchecked(const std::vector<ConfigCheck>& lines, const Error& why) {
  Printable text = "Lines for slurm.conf, not checked:\n";
  for (const ConfigCheck& line : lines) text += formatted("  {}\n", line.line);
  print(text);
  Error reason = why;
  reason.hint.clear();
  const bool refused = why.message.find(kUnreadRequest) != std::string::npos;
  return print_error(
      {why.code, "slurm.conf could not be checked",
       refused ? reason.text() + ", as with another munge key on the controller" : reason.text(),
       refused ? std::string(kCompareMungeKeys) : why.hint});
}

Printable text_of(const ConfigCheck& checked) {
  if (checked.problem.empty()) return formatted("  {:<60} ok\n", checked.line);
  return formatted("  {:<60} {}\n", checked.line, checked.problem);
}

}  // namespace

int install(const SlurmVerb& verb) {
  // Slurm wants whole paths.
  const std::string directory = std::filesystem::absolute(
      verb.into.empty() ? kDefaultDirectory : std::string_view(verb.into));
  if (!verb.into.empty()) {
    if (auto written = write_scripts(directory); !written) return print_error(written.error());
    print(formatted("Hooks written to {}; every node needs them there.\n", directory));
  }
  const auto config = run_slurm_command({"scontrol", "show", "config"});
  std::vector<ConfigCheck> lines;
  for (const Script& script : kScripts) {
    lines.push_back(check_script_line(config ? *config : "", script, directory));
  }
  lines.insert(lines.begin() + 1, check_interval(config ? *config : ""));
  lines.insert(lines.begin() + 2, check_flags(config ? *config : ""));
  if (!config) {
    const auto path = path_of_hooks();
    return print_unchecked(lines, path ? config.error() : path.error());
  }
  Printable text = "Checked lines of slurm.conf:\n";
  for (const ConfigCheck& line : lines) text += text_of(line);
  const bool all = std::ranges::all_of(
      lines, [](const ConfigCheck& line) { return line.problem.empty() || !line.needed; });
  const auto written = [&](const Script& script) {
    return ::access(fmt::format("{}/{}", directory, script.name).c_str(), X_OK) == 0;
  };
  if (!all && !std::ranges::all_of(kScripts, written)) {
    text += formatted("To write the hooks these lines name: gpuyard slurm install --into {}\n",
                      directory);
  }
  print(text);
  return all ? 0 : 1;
}

}  // namespace gpuyard::cli::slurm
