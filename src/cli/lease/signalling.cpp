#include "cli/lease/signalling.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/try.h"
#include "cli/screen/output.h"
#include "core/processes/identify.h"
#include "core/processes/marks.h"
#include "io/http/tunnel.h"

namespace gpuyard::cli {
namespace {

using protocol::UnsignalledProcess;
using protocol::UnsignalledProcesses;
using Processes = std::vector<UnsignalledProcess>;

constexpr std::size_t kMaxListBytes = std::size_t{1} << 20;
constexpr Duration kRemoteTimeout = std::chrono::seconds(10);
// More is no start of a process, and would overflow a duration.
constexpr std::int64_t kMaxStartMs = std::int64_t{1} << 42;

std::optional<processes::ProcessKey> key_of(const UnsignalledProcess& process) {
  if (process.started_after_boot_ms < 0 || process.started_after_boot_ms > kMaxStartMs) {
    return std::nullopt;
  }
  return processes::ProcessKey{process.pid,
                               TimePoint(std::chrono::milliseconds(process.started_after_boot_ms))};
}

Result<void> check_numbering(const UnsignalledProcesses& left) {
  const auto own = processes::own_pid_namespace();
  if (own.matches({left.boot_id, left.pid_namespace})) return {};
  return Error{Errc::denied,
               own.boot_id == left.boot_id
                   ? "this process is in another PID namespace than the daemon, such as that of a "
                     "container, where processes have other numbers"
                   : "the processes run on another machine"};
}

// The daemon may have been taken over: only a process that names the lease is signalled, in the
// name of the user who runs this program. No other is, whatever the daemon says of it.
Result<void> check_mark(const UnsignalledProcess& process, const std::string& lease) {
  const auto environment =
      read_file(fmt::format("/proc/{}/environ", process.pid), processes::kMaxEnvironmentBytes);
  if (!environment && environment.error().code == Errc::denied) {
    return Error{Errc::denied, fmt::format("process {} runs as another user", process.pid)};
  }
  if (!environment && environment.error().code == Errc::not_found) return {};  // it has ended
  if (!environment) return environment.error();
  if (!lease.empty() && processes::lease_in_environment(*environment) == lease) return {};
  return Error{Errc::denied,
               fmt::format("process {} does not name the lease in its environment", process.pid)};
}

Result<Processes> send_signals_over_ssh(const http::Tunnel& carrier,
                                        const UnsignalledProcesses& left) {
  const auto line = carrier.open({"--send-signals"});
  if (!line) return line.error();
  const auto reply =
      GPUYARD_TRY((*line)->exchange(json::to_json(left), kRemoteTimeout, kMaxListBytes));
  auto rest = json::from_json<UnsignalledProcesses>(reply, json::UnknownFields::ignore);
  if (!rest) {
    return Error{Errc::denied,
                 "the program on that machine does not send signals; the ssh key may only run "
                 "another command"};
  }
  if (!rest->why.empty()) return Error{Errc::denied, rest->why};
  return std::move(rest->processes);
}

}  // namespace

Result<Processes> send_signals(const UnsignalledProcesses& left) {
  const auto number = GPUYARD_TRY(protocol::signal_of(left.signal));
  GPUYARD_TRY(check_numbering(left));
  Processes rest;
  for (const UnsignalledProcess& process : left.processes) {
    const auto key = key_of(process);
    auto sent = key ? check_mark(process, left.lease) : Result<void>();
    if (key && sent) sent = processes::send_signal(*key, number);
    if (sent || sent.error().code == Errc::not_found) continue;
    rest.push_back({process.pid, process.started_after_boot_ms, sent.error().text()});
  }
  return rest;
}

Result<void> send_remaining_signals(const http::Endpoint& daemon, const UnsignalledProcesses& left,
                                    const std::string& lease) {
  const std::string verb = fmt::format("lease release {} --signal {}", lease, left.signal);
  Error error{Errc::denied,
              fmt::format("lease {} was released, but its processes were not signalled", lease)};
  if (!left.why.empty()) {  // the daemon did not list them
    const bool over_tls = daemon.kind == http::Endpoint::Kind::tls;
    if (!over_tls) error.code = Errc::timed_out;
    error.cause = left.why;
    error.hint = fmt::format("gpuyard {}{}", verb, over_tls ? "  # on the daemon's machine" : "");
    return error;
  }
  const bool carried = daemon.kind == http::Endpoint::Kind::tunnel;
  if (!carried && daemon.kind != http::Endpoint::Kind::unix_socket) {
    error.cause = "the daemon was asked over the network";
    error.hint = fmt::format("gpuyard {}  # on the daemon's machine", verb);
    return error;
  }
  const auto rest = carried ? send_signals_over_ssh(*daemon.tunnel, left) : send_signals(left);
  if (!rest) {
    error.code = rest.error().code;
    error.cause = rest.error().text();
    error.hint = fmt::format("gpuyard {}  # on the daemon's machine, outside of containers", verb);
    return error;
  }
  if (!rest->empty()) {
    error.message = fmt::format("{} of {} processes of lease {} were not signalled", rest->size(),
                                left.processes.size(), lease);
    error.cause = rest->front().why;
    if (rest->size() > 1) error.cause += fmt::format(", and {} more", rest->size() - 1);
    if (carried || ::geteuid() != 0) {
      error.hint =
          fmt::format("sudo gpuyard {}{}", verb, carried ? "  # on the daemon's machine" : "");
    }
    return error;
  }
  if (left.left_out == 0) return {};
  error.message =
      fmt::format("{} more processes of lease {} were not signalled", left.left_out, lease);
  error.code = Errc::busy;
  error.hint = "gpuyard " + verb;
  return error;
}

Result<void> relay_signals() {
  print(Printable::lines(http::kGreeting));
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("reading stdin");
    if (got == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxListBytes) return Error{Errc::invalid, "the list on stdin is too long"};
  }
  auto left = json::from_json<UnsignalledProcesses>(text, json::UnknownFields::ignore);
  if (!left) return std::move(left).error().in("the list on stdin");
  auto rest = send_signals(*left);
  left->why = rest ? "" : rest.error().text();
  left->processes = rest ? *std::move(rest) : Processes{};
  print(json_line(*left));
  return {};
}

}  // namespace gpuyard::cli
