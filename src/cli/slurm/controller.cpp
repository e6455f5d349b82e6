#include "cli/slurm/controller.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/paths.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/trusted_file.h"

namespace gpuyard::cli::slurm {
namespace {

// Calls visit(line) for each line of a text.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) visit(take_until('\n', text));
}

// Calls visit(part) for each part between commas that are in no brackets: "a[1,2],b".
template <class Visit>
void for_each_part(std::string_view text, Visit&& visit) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    visit(text.substr(begin, i - begin));
    begin = i + 1;
  }
}

// "4" of " Count=4 ..."
std::string_view word_after(std::string_view line, std::string_view key) {
  const std::size_t begin = line.find(key);
  if (begin == line.npos) return {};
  const std::string_view rest = line.substr(begin + key.size());
  return rest.substr(0, rest.find(' '));
}

// Adds the numbers of "0", "0-3" or "3,1,5-7".
void add_ranges(std::string_view text, std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t kMaxRange = 256;
  for_each_part(text, [&](std::string_view part) {
    const std::size_t dash = part.find('-');
    const auto first = parse_number<std::uint32_t>(part.substr(0, dash));
    const auto last =
        dash == part.npos ? first : parse_number<std::uint32_t>(part.substr(dash + 1));
    if (!first || !last) return;
    for (std::int64_t n = *first; n <= *last && n < *first + kMaxRange; ++n) numbers.push_back(n);
  });
}

// The numbers of "/dev/nvidia[0-3]", "/dev/nvidia7"; none of other files.
std::vector<std::int64_t> numbers_of(std::string_view files) {
  constexpr std::string_view kNvidia = "nvidia";
  std::vector<std::int64_t> numbers;
  for_each_part(files, [&](std::string_view file) {
    std::string_view name = file.substr(file.rfind('/') + 1);
    if (!take_prefix(name, kNvidia)) return;
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    add_ranges(name, numbers);
  });
  return numbers;
}

// Runs one of Slurm's programs; see run_slurm_command().
Result<std::string> run_slurm_program(SpawnOptions options, Duration timeout,
                                      std::size_t max_output) {
  const std::string name = options.program;
  const auto text = run_with_timeout(std::move(options), timeout, max_output);
  if (!text) {
    // The last line is the one that says it; those before are of a log.
    const std::string all = text.error().text();
    const std::size_t line = all.rfind('\n');
    return Error{
        text.error().code,
        fmt::format("{}: {}", name, printable(trim(all.substr(line == all.npos ? 0 : line + 1))))};
  }
  std::string kept;
  for_each_line(*text, [&](std::string_view line) {
    if (!line.starts_with(name + ": ")) kept.append(line) += '\n';
  });
  return kept;
}

// A user's SQUEUE_USERS, SINFO_PARTITION and the like hide a part of the cluster, and the other
// variables of these commands change the format.
void remove_user_filters() {
  std::vector<std::string> names;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable(*one);
    if (!variable.starts_with("SQUEUE_") && !variable.starts_with("SINFO_")) continue;
    names.emplace_back(variable.substr(0, variable.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

Error controller_error(const Error& failed) {
  const bool refused = failed.message.find("uthentication") != std::string::npos;
  return {Errc::unavailable,
          refused ? "Slurm's controller does not accept this machine"
                  : "Slurm's controller is not responding",
          failed.message, refused ? "munge -n | unmunge" : "scontrol ping"};
}

}  // namespace

std::vector<std::string> trusted_default_folders() {
  std::vector<std::string> folders;
  for (const std::string_view usual : kDefaultFolders) {
    std::string folder(usual);
    const bool there = ::access(folder.c_str(), F_OK) == 0;
    if (there && check_trusted_by_root(folder)) folders.push_back(std::move(folder));
  }
  return folders;
}

void extend_path() {
  std::vector<std::string> folders = absolute_folders(environment_variable("PATH"));
  for (std::string& usual : trusted_default_folders()) folders.push_back(std::move(usual));
  ::setenv("PATH", fmt::format("{}", fmt::join(folders, ":")).c_str(), 1);
}

Result<std::string> run_slurm_command(const std::vector<std::string>& words, Duration timeout) {
  return run_slurm_program({.program = words.front(),
                            .arguments = {words.begin() + 1, words.end()},
                            .search_path = true},
                           timeout, kMaxRunOutput);
}

Error not_installed_error(std::string_view program, std::string cause) {
  return {Errc::unavailable, fmt::format("{} is not installed on this machine", program),
          std::move(cause),
          "apt-get install slurm-client  # or log in to a machine of the cluster"};
}

Result<std::string> query_controller(const std::vector<std::string>& words) {
  constexpr std::size_t kMaxRemarks = 4096;  // bytes that are left out of an answer
  const std::string& name = words.front();
  if (!find_program(name)) return not_installed_error(name, "Slurm's answer comes from it");
  remove_user_filters();
  const auto text =
      run_slurm_program({.program = name,
                         .arguments = {words.begin() + 1, words.end()},
                         .search_path = true,
                         .environment = {{"TZ", "UTC0"}, {"SLURM_TIME_FORMAT", "%s"}}},
                        kCommandTimeout, kMaxControllerAnswer + kMaxRemarks);
  if (!text) return controller_error(text.error());
  if (text->size() <= kMaxControllerAnswer) return *text;
  return Error{
      Errc::unavailable,
      fmt::format("{} printed more than {} MiB, the limit", name, kMaxControllerAnswer >> 20U), "",
      name == "squeue" ? "squeue --me  # only your own jobs" : ""};
}

bool NodeState::has(std::string_view flag) const {
  return fmt::format("+{}", flags).find(fmt::format("+{}", flag)) != std::string::npos;
}

bool NodeState::is_otherwise_unavailable() const {
  return has("down") || has("fail") || has("inval") || has("reboot") || has("power");
}

Result<NodeState> parse_node_state(std::string_view text) {
  std::optional<NodeState> found;
  for_each_line(text, [&](std::string_view line) {
    if (line.size() <= kFlagsWidth || found) return;
    found = NodeState{std::string(trim(line.substr(0, kFlagsWidth))),
                      std::string(trim(line.substr(kFlagsWidth)))};
  });
  if (found) return *std::move(found);
  return Error{Errc::not_found, "sinfo: unknown node"};
}

Result<NodeState> query_node(const std::string& node) {
  const auto text = run_slurm_command({"sinfo", "-h", "-N", "-n", node, "-O",
                                       fmt::format("StateComplete:{},Reason:1000", kFlagsWidth)});
  if (!text) return text.error();
  return parse_node_state(*text);
}

Result<void> drain_node(const std::string& node, const std::string& reason) {
  const auto done = run_slurm_command(
      {"scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason});
  if (!done) return done.error();
  return {};
}

Result<void> resume_node(const std::string& node) {
  const auto done = run_slurm_command({"scontrol", "update", "NodeName=" + node, "State=RESUME"});
  if (!done) return done.error();
  return {};
}

// Asked for one job, a controller need not send all that it has.
Result<bool> is_running(const std::string& job) {
  const auto text = run_slurm_command({"squeue", "-h", "-j", job, "-o", "%T"});
  if (!text && text.error().message.find("Invalid job id") != std::string::npos) return false;
  if (!text) return text.error();
  const std::string_view state = trim(*text);
  return !state.empty() && state != "PENDING";
}

std::vector<std::int64_t> parse_minors(std::string_view text) {
  std::vector<std::int64_t> minors;
  for_each_line(text, [&](std::string_view line) {
    constexpr std::int64_t kMaxGpus = 256;
    if (line.find("Gres Name=gpu ") == line.npos || line.find("File") == line.npos) return;
    const auto count = std::clamp<std::int64_t>(
        parse_number<std::int64_t>(word_after(line, " Count=")).value_or(1), 0, kMaxGpus);
    auto numbers = numbers_of(word_after(line, " File="));
    if (std::ssize(numbers) != count) numbers.assign(static_cast<std::size_t>(count), kNoGpu);
    minors.insert(minors.end(), numbers.begin(), numbers.end());
  });
  return minors;
}

Result<std::vector<std::int64_t>> query_minors(const std::string& node, const std::string& file,
                                               Duration timeout) {
  std::vector<std::string> words = {"-G", "-N", node};
  if (!file.empty()) words.insert(words.end(), {"-f", file});
  const auto text = run_with_timeout(
      {.program = "slurmd", .arguments = std::move(words), .search_path = true}, timeout);
  if (!text) return Error(text.error()).in("slurmd -G");
  return parse_minors(*text);
}

Result<std::vector<std::string>> expand_hosts(const std::string& nodes) {
  const auto text = run_slurm_command({"scontrol", "show", "hostnames", nodes});
  if (!text) return text.error();
  std::vector<std::string> hosts;
  for_each_line(*text, [&](std::string_view line) { hosts.emplace_back(line); });
  return hosts;
}

}  // namespace gpuyard::cli::slurm
