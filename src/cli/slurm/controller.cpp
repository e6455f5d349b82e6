#include "cli/slurm/controller.h"

#include <unistd.h>

#include <cstdlib>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/spawn.h"
#include "base/text.h"
#include "cli/shared_options.h"

namespace gpuyard::cli::slurm {
namespace {

// Calls visit(line) for each line of a text.
template <class Visit>
void each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

// Adds the numbers of "0", "0-3" or "3,1,5-7".
void add_ranges(std::string_view text, std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t kMost = 256;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = number_in(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : number_in(std::string_view(part).substr(dash + 1));
    if (!first || !last) continue;
    for (auto n = *first; n <= *last && n < *first + kMost; ++n) numbers.push_back(n);
  }
}

}  // namespace

void set_path() {
  ::setenv("PATH",
           "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/sbin:"
           "/opt/slurm/bin",
           0);
}

Result<std::string> run(const std::vector<std::string>& words, Duration patience) {
  auto text = run_within({.program = words.front(),
                          .arguments = {words.begin() + 1, words.end()},
                          .looks_in_path = true},
                         patience);
  if (text) return text;
  // The last line is the one that says it; those before are of a log.
  const std::string& all = text.error().message;
  const std::size_t line = all.rfind('\n');
  return Error{
      text.error().code,
      fmt::format("{}: {}", words.front(),
                  printable(trimmed(all.substr(line == std::string::npos ? 0 : line + 1))))};
}

Result<NodeState> node_state_in(std::string_view text) {
  std::optional<NodeState> found;
  each_line(text, [&](std::string_view line) {
    const std::size_t bar = line.find('|');
    if (bar == line.npos || found) return;
    found = NodeState{std::string(line.substr(0, bar)), std::string(line.substr(bar + 1))};
  });
  if (found) return *std::move(found);
  return Error{Errc::not_found, "sinfo: knows no such node"};
}

Result<NodeState> ask_node(const std::string& node) {
  const auto text = run({"sinfo", "-h", "-N", "-n", node, "-o", "%T|%E"});
  if (!text) return text.error();
  return node_state_in(*text);
}

Result<void> drain(const std::string& node, const std::string& reason) {
  const auto done =
      run({"scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason});
  if (!done) return done.error();
  return {};
}

Result<void> resume(const std::string& node) {
  const auto done = run({"scontrol", "update", "NodeName=" + node, "State=RESUME"});
  if (!done) return done.error();
  return {};
}

Result<std::set<std::string>> jobs_on(const std::string& node) {
  const auto text = run({"squeue", "-h", "-w", node, "-o", "%A"});
  if (!text) return text.error();
  std::set<std::string> jobs;
  each_line(*text, [&](std::string_view line) { jobs.emplace(line); });
  return jobs;
}

std::vector<std::int64_t> minors_in(std::string_view text) {
  std::vector<std::int64_t> minors;
  each_line(text, [&](std::string_view line) {
    constexpr std::string_view kFile = "File=";
    const std::size_t begin = line.find(kFile);
    if (line.find("Gres Name=gpu ") == line.npos || begin == line.npos) return;
    std::string_view file = line.substr(begin + kFile.size());
    file = file.substr(0, file.find(' '));
    if (file.ends_with(']')) {
      const std::size_t open = file.rfind('[');
      if (open != file.npos) {
        add_ranges(file.substr(open + 1, file.size() - open - 2), minors);
      }
      return;
    }
    const std::size_t digits = file.find_last_not_of("0123456789") + 1;
    add_ranges(file.substr(digits), minors);
  });
  return minors;
}

Result<std::vector<std::int64_t>> ask_minors(const std::string& node, const std::string& file) {
  constexpr Duration kShort = std::chrono::seconds(2);
  std::vector<std::string> words = {"slurmd", "-G", "-N", node};
  if (::access(file.c_str(), R_OK) == 0) words.insert(words.end(), {"-f", file});
  const auto text = run(words, kShort);
  if (!text) return text.error();
  return minors_in(*text);
}

Result<std::vector<std::string>> hosts_in(const std::string& nodes) {
  const auto text = run({"scontrol", "show", "hostnames", nodes});
  if (!text) return text.error();
  std::vector<std::string> hosts;
  each_line(*text, [&](std::string_view line) { hosts.emplace_back(line); });
  return hosts;
}

}  // namespace gpuyard::cli::slurm
