// gpuyard slurm install: the scripts that Slurm runs, and the lines of slurm.conf that name them.
// Slurm's own files are the site's: they are looked at, and never written.
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/screen/terminal.h"
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

// The value of a key in `scontrol show config`; "" where it has none.
std::string value_of(std::string_view config, std::string_view key) {
  const std::string begin = fmt::format("\n{} ", key);
  const std::string all = fmt::format("\n{}", config);
  const std::size_t at = all.find(begin);
  if (at == std::string::npos) return "";
  const std::size_t equals = all.find('=', at);
  const std::size_t end = all.find('\n', at + 1);
  if (equals == std::string::npos || equals > end) return "";
  const std::string value(trimmed(std::string_view(all).substr(equals + 1, end - equals - 1)));
  return value == "(null)" ? "" : value;
}

// Whether the hook is ours, or a site's own that runs ours.
bool runs(const std::string& file, const Script& script) {
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
  const std::string value = value_of(config, script.key);
  if (runs(value, script)) checked.line = fmt::format("{}={}", script.key, value);
  if (value.empty()) {
    checked.problem =
        script.needed ? "is missing" : "is missing; it is for `sacct -o AdminComment`";
  } else if (!runs(value, script)) {
    checked.problem =
        fmt::format("is {}, which does not run `gpuyard slurm {}`: let it", value, script.verb);
  } else if (auto trusted = check_trusted_by_root(value); !trusted) {
    checked.problem = trusted.error().message;
  }
  return checked;
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
  const auto config = run({"scontrol", "show", "config"});
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
