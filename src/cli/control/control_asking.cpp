#include "cli/control/control_asking.h"

#include <thread>

#include "daemon/config/config.h"

namespace gpuyard::cli {
namespace {

using protocol::Changes;

// The daemon lets the command that resets run as long as its configuration says.
constexpr Duration kResetDeadline =
    std::chrono::seconds(config::Config::Control::kLongestReset) + kChangeDeadline;
constexpr Duration kLookAgain = std::chrono::milliseconds(200);

Result<protocol::Change> end_of(const http::Endpoint& daemon, const std::string& operation) {
  const TimePoint deadline = BootClock::now() + kResetDeadline;
  while (BootClock::now() < deadline) {
    auto now = client::call(daemon, protocol::kOperation, {operation});
    if (!now) return std::move(now).error();
    using enum protocol::OperationState;
    if (now->state == done || now->state == failed) return std::move(now->change);
    std::this_thread::sleep_for(kLookAgain);
  }
  return Error{Errc::timed_out, "operation " + operation + " has not ended"};
}

Result<Changes> reset(const ControlVerb& verb, const http::Endpoint& daemon, bool dry_run) {
  protocol::ChangeWish wish;
  say_how(wish, verb, dry_run);
  if (!dry_run) wish.wait = false;
  auto changes = client::call(daemon, protocol::kResetGpu, {verb.gpus}, wish, kChangeDeadline);
  if (!changes || dry_run || verb.no_wait) return changes;
  for (protocol::Change& change : changes->changes) {
    auto over = end_of(daemon, change.operation);
    if (!over) return std::move(over).error();
    change = *std::move(over);
  }
  return changes;
}

}  // namespace

ControlRequest give_up(SettingKind kind, const RestoreRoute& route, const ControlVerb& verb) {
  return {std::string(words_of(kind)), [&route, verb](const http::Endpoint& daemon, bool dry_run) {
            protocol::RestoreQuery query;
            query.id = verb.gpus;
            say_how(query, verb, dry_run);
            return client::call(daemon, route, query, {}, kChangeDeadline);
          }};
}

ControlRequest reset_gpu(const ControlVerb& verb) {
  return {"reset", [verb](const http::Endpoint& daemon, bool dry_run) {
            return reset(verb, daemon, dry_run);
          }};
}

}  // namespace gpuyard::cli
