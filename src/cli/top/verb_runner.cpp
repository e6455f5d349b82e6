#include "cli/top/verb_runner.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/proc_stat.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli::top {

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 && (c == ' ' || c == '\t')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  return words;
}

Result<void> check_process(const ProcessKey& process) {
  constexpr std::int64_t kTickMs = 10;  // milliseconds
  const auto ticks = process_start_time(static_cast<pid_t>(process.pid));
  if (!process.started_after_boot_ms) {
    return Error{
        Errc::unsupported,
        fmt::format("the start time of process {} is unknown, so its PID may have been reused",
                    process.pid)};
  }
  if (ticks && static_cast<std::int64_t>(*ticks) * kTickMs == *process.started_after_boot_ms) {
    return {};
  }
  return Error{Errc::not_found,
               fmt::format("process {} has exited, or is not on this machine", process.pid)};
}

Result<void> send_signal(const ProcessKey& process, const std::string& signal) {
  const auto number = GPUYARD_TRY(protocol::signal_of(signal));
  // Opened before the check: afterwards it can only mean the process that was checked.
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  GPUYARD_TRY(check_process(process));
  if (!pidfd || ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0) != 0) {
    return system_error(fmt::format("sending SIG{} to process {}", signal, process.pid));
  }
  return {};
}

std::string without_program_name(std::string_view said) {
  constexpr std::string_view kName = "gpuyard: ";
  std::string out;
  while (!said.empty()) {
    std::string_view line = take_until('\n', said);
    if (line.starts_with(kName)) line.remove_prefix(kName.size());
    out += (out.empty() ? "" : "\n") + std::string(line);
  }
  return out;
}

Result<std::string> run_verb(const std::vector<std::string>& words) {
  constexpr Duration kVerbTimeout = std::chrono::seconds(20);
  return run_with_timeout({.arguments = words}, kVerbTimeout);
}

}  // namespace gpuyard::cli::top
