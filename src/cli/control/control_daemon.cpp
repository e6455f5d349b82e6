#include "cli/control/control_daemon.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "daemon/config/config.h"

namespace gpuyard::cli {
namespace {

bool has_group(gid_t wanted) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return ::getegid() == wanted || std::ranges::find(groups, wanted) != groups.end();
}

bool has_member(const group& entry, std::string_view user) {
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (*member == user) return true;
  }
  return false;
}

// Empty if our UID has no name, as in a container.
std::string current_user_name() {
  const passwd* const us = ::getpwuid(::geteuid());
  return us != nullptr ? us->pw_name : "";
}

constexpr std::string_view kJoinCommand = "usermod -aG ";
constexpr std::string_view kJoinSuffix = " USER";
constexpr std::string_view kCreateCommand = "groupadd --system ";

// Returns the group that a refusal asks the user to join; empty if it names none.
std::string group_to_join(std::string_view message) {
  const std::size_t at = message.find(kJoinCommand);
  const std::size_t end = at == message.npos ? at : message.find(kJoinSuffix, at);
  if (end == message.npos) return "";
  return std::string(message.substr(at + kJoinCommand.size(), end - at - kJoinCommand.size()));
}

// Returns the group that does not exist on this machine; empty if a refusal names none.
std::string group_to_create(std::string_view message) {
  const std::size_t at = message.find(kCreateCommand);
  if (at == message.npos) return "";
  message.remove_prefix(at + kCreateCommand.size());
  return std::string(message.substr(0, message.find_first_of(" `")));
}

// A user added to a group has it only from the next login on; only this process knows its own.
bool has_group_from_next_login(const std::string& name, std::string_view user) {
  const group* const entry = ::getgrnam(name.c_str());
  return entry != nullptr && !has_group(entry->gr_gid) && has_member(*entry, user);
}

using protocol::ChangeResults;

// The longest wait for a reset: the longest time that the configuration can give its command.
constexpr Duration kResetTimeout =
    std::chrono::seconds(config::Config::Control::kMaxReset) + kChangeTimeout;
constexpr Duration kResetPollInterval = std::chrono::milliseconds(200);

Result<protocol::ChangeResult> wait_for_operation(const http::Endpoint& daemon,
                                                  const std::string& operation) {
  const TimePoint deadline = BootClock::now() + kResetTimeout;
  while (BootClock::now() < deadline) {
    auto now = client::call_with_retry(daemon, protocol::kOperation, {operation});
    if (!now) return std::move(now).error();
    using enum protocol::OperationState;
    if (now->state == done || now->state == failed) return std::move(now->change);
    std::this_thread::sleep_for(kResetPollInterval);
  }
  return Error{Errc::timed_out, "operation " + operation + " has not finished"};
}

Result<ChangeResults> submit_reset(const ControlVerb& verb, const http::Endpoint& daemon,
                                   bool dry_run) {
  protocol::ChangeOptions options;
  set_change_flags(options, verb, dry_run);
  if (!dry_run) options.wait = false;
  auto changes =
      client::call_with_retry(daemon, protocol::kResetGpu, {verb.gpus}, options, kChangeTimeout);
  if (!changes || dry_run || verb.detach) return changes;
  for (protocol::ChangeResult& change : changes->changes) {
    change = GPUYARD_TRY(wait_for_operation(daemon, change.operation));
  }
  return changes;
}

constexpr std::size_t kMaxAnswerBytes = 64;

// Reads once: a terminal gives a whole line.
std::string read_answer() {
  std::array<char, kMaxAnswerBytes> line{};
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, line.data(), line.size());
  } while (count < 0 && errno == EINTR);
  std::string answer(line.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  std::erase_if(answer, [](char c) { return c == ' ' || c == '\n' || c == '\r'; });
  // At the end of the input no Enter has ended the line of the question.
  if (count <= 0) print_stderr("\n");
  return to_lower(answer);
}

}  // namespace

int print_control_error(Error error, bool elsewhere, std::string_view act) {
  // The user and the groups on the other machine are not known here.
  if (elsewhere) return print_error(error);
  if (error.code == Errc::timed_out) error.hint = "gpuyard operations";
  return error.code == Errc::denied
             ? print_error(with_group_advice(std::move(error), current_user_name(), act))
             : print_source_error(error);
}

Error with_group_advice(Error error, std::string_view user, std::string_view act) {
  const std::string group = group_to_join(error.text());
  const std::string absent = group_to_create(error.text());
  if (group.empty() && absent.empty()) return error;
  error.message = fmt::format("permission denied: {} needs the scope \"control\"", act);
  if (!absent.empty()) {
    error.cause = fmt::format("the group {} does not exist on this machine", absent);
    error.hint = fmt::format("sudo {}{}  # then restart the daemon", kCreateCommand, absent);
  } else if (user.empty()) {
    error.cause =
        fmt::format("UID {} has no user name, and is not in the group {}", ::geteuid(), group);
    error.hint.clear();
  } else if (has_group_from_next_login(group, user)) {
    error.cause = fmt::format("user {} is in the group {}, but not in this session", user, group);
    error.hint = fmt::format("newgrp {}  # or log in again", group);
  } else {
    error.cause = fmt::format("user {} is not in the group {}", user, group);
    error.hint = fmt::format("sudo {}{} {}  # then log in again", kJoinCommand, group, user);
  }
  return error;
}

ControlRequest make_restore_request(SettingKind kind, const RestoreRoute& route,
                                    const ControlVerb& verb) {
  return {std::string(display_name(kind)),
          [&route, verb](const http::Endpoint& daemon, bool dry_run) {
            protocol::RestoreQuery query;
            query.id = verb.gpus;
            set_change_flags(query, verb, dry_run);
            return client::call_with_retry(daemon, route, query, {}, kChangeTimeout);
          }};
}

ControlRequest make_reset_request(const ControlVerb& verb) {
  return {"reset", [verb](const http::Endpoint& daemon, bool dry_run) {
            return submit_reset(verb, daemon, dry_run);
          }};
}

bool is_interactive() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
}

bool confirm(std::string_view question) {
  print_stderr(formatted("{} [y/N] ", question));
  const std::string answer = read_answer();
  return answer == "y" || answer == "yes";
}

}  // namespace gpuyard::cli
