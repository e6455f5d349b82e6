// gpuyard slurm install: the scripts that Slurm runs, and the lines of slurm.conf that name them.
// Slurm's own files are the site's: they are looked at, and never written.
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr std::string_view kUsualPlace = "/etc/gpuyard/slurm";

struct Script {
  std::string_view name;
  std::string_view verb;
  std::string_view key;  // of slurm.conf
  bool needed = true;
};
constexpr std::array kScripts = {
    Script{"health", "health", "HealthCheckProgram"}, Script{"prolog", "begin", "Prolog"},
    Script{"epilog", "end", "Epilog"},
    Script{"epilog-slurmctld", "epilog-ctld", "EpilogSlurmctld", false}};

// A program that was removed must not keep jobs out.
std::string text_of(const Script& script) {
  const std::string program = program_path();
  return fmt::format(
      "#!/bin/sh\n"
      "# Written by `gpuyard slurm install`; Slurm gives its hooks no PATH.\n"
      "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
      "export PATH\n"
      "[ -x {0} ] || exit 0\n"
      "exec {0} slurm {1}\n",
      program, script.verb);
}

Result<void> write_scripts(const std::string& directory) {
  constexpr unsigned kForAll = 0755;
  if (auto made = make_directories(directory, kForAll); !made) return made;
  for (const Script& script : kScripts) {
    auto done =
        replace_file(fmt::format("{}/{}", directory, script.name), text_of(script), kForAll);
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
        trimmed(std::string_view(line).substr(key.size(), equals - key.size()));
    const std::string value(trimmed(std::string_view(line).substr(equals + 1)));
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

// Whether the hook is ours, or a site's own that runs ours.
bool is_hook(const std::string& file, const Script& script) {
  constexpr std::size_t kMost = std::size_t{256} * 1024;
  const auto text = read_file(file, kMost);
  return text && (text->find(fmt::format("slurm {}", script.verb)) != std::string::npos ||
                  text->find(fmt::format("{}/{}", kUsualPlace, script.name)) != std::string::npos);
}

struct Checked {
  std::string line;     // as slurm.conf is to have it
  std::string problem;  // "": it is there
  bool needed = true;
};

Checked check(std::string_view config, const Script& script, const std::string& directory) {
  Checked checked{fmt::format("{}={}/{}", script.key, directory, script.name), "", script.needed};
  const auto values = values_of(config, script.key);
  for (const std::string& value : values) {
    for (const std::string& file : files_of(value)) {
      if (!is_hook(file, script)) continue;
      checked.line = fmt::format("{}={}", script.key, value);
      if (auto trusted = check_trusted_by_root(file); !trusted) {
        checked.problem = trusted.error().message;
      }
      return checked;
    }
  }
  checked.problem =
      values.empty() ? fmt::format("is missing{}", script.needed ? "" : "; it is for AdminComment")
                     : fmt::format("is {}, which does not run `gpuyard slurm {}`: let it",
                                   fmt::join(values, ", "), script.verb);
  return checked;
}

// The first value of a key; "" where it has none.
std::string value_of(std::string_view config, std::string_view key) {
  const auto values = values_of(config, key);
  return values.empty() ? "" : values.front();
}

Checked check_interval(std::string_view config) {
  const std::string value = value_of(config, "HealthCheckInterval");
  if (value.empty() || value.starts_with("0 ")) {
    return {"HealthCheckInterval=30", "is 0: no check is run"};
  }
  return {"HealthCheckInterval=" + value.substr(0, value.find(' ')), ""};
}

Checked check_flags(std::string_view config) {
  const std::string value = value_of(config, "PrologFlags");
  const bool early = value.find("Alloc") != value.npos || value.find("Contain") != value.npos;
  if (early) return {"PrologFlags=" + value, ""};
  return {"PrologFlags=Alloc", "has no Alloc: a job is only known at its first step"};
}

std::string text_of(const Checked& checked) {
  if (checked.problem.empty()) return fmt::format("  {:<60} there\n", checked.line);
  return fmt::format("  {:<60} {}\n", checked.line, checked.problem);
}

}  // namespace

int install(const SlurmVerb& verb) {
  const std::string directory = verb.into.empty() ? std::string(kUsualPlace) : verb.into;
  if (!verb.into.empty()) {
    if (auto written = write_scripts(verb.into); !written) return complain(written.error());
    print(fmt::format("The hooks are in {}; every node needs them there.\n", verb.into));
  }
  const auto config = ask_slurm({"scontrol", "show", "config"});
  std::vector<Checked> lines;
  for (const Script& script : kScripts) {
    lines.push_back(check(config ? *config : "", script, directory));
  }
  lines.insert(lines.begin() + 1, check_interval(config ? *config : ""));
  lines.insert(lines.begin() + 2, check_flags(config ? *config : ""));
  std::string text = "Lines of slurm.conf:\n";
  for (const Checked& line : lines) text += text_of(line);
  const bool all = std::ranges::all_of(
      lines, [](const Checked& line) { return line.problem.empty() || !line.needed; });
  const auto written = [&](const Script& script) {
    return ::access(fmt::format("{}/{}", directory, script.name).c_str(), X_OK) == 0;
  };
  if (!all && !std::ranges::all_of(kScripts, written)) {
    text += fmt::format("`gpuyard slurm install --into {}` writes the hooks that they name.\n",
                        directory);
  }
  print(text);
  if (!config) return complain(config.error());
  return all ? 0 : 1;
}

}  // namespace gpuyard::cli::slurm
