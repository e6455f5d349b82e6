#include "cli/control/control_daemon.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "daemon/config/config.h"
#include "device/error.h"

namespace gpuyard::cli {
namespace {

std::string advice_without_daemon() {
  const auto files = config::default_files(config::Environment::of_process());
  return fmt::format(
      "  `gpuyard serve` starts one. With `enabled = true` under [control] in {} it may change "
      "GPUs.",
      fmt::join(files, " or "));
}

bool has_group(gid_t wanted) {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return ::getegid() == wanted || std::ranges::find(groups, wanted) != groups.end();
}

bool lists(const group& entry, std::string_view user) {
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (*member == user) return true;
  }
  return false;
}

std::string own_name() {
  const passwd* const us = ::getpwuid(::geteuid());
  return us != nullptr ? us->pw_name : std::to_string(::geteuid());
}

constexpr std::string_view kJoin = "usermod -aG ";
constexpr std::string_view kJoiner = " USER";

// The group that a refusal says to join; empty: it is about something else.
std::string group_to_join(std::string_view message) {
  const std::size_t at = message.find(kJoin);
  const std::size_t end = at == message.npos ? at : message.find(kJoiner, at);
  if (end == message.npos) return "";
  return std::string(message.substr(at + kJoin.size(), end - at - kJoin.size()));
}

// Who was added to the group has it from the next login on, which nobody but this process knows.
std::string advice_on_login(const std::string& name, std::string_view user) {
  const group* const entry = name.empty() ? nullptr : ::getgrnam(name.c_str());
  if (entry == nullptr || has_group(entry->gr_gid) || !lists(*entry, user)) return "";
  return fmt::format(
      "  {0} is in that group by now, but this login is older: log in again, or run `newgrp {1}`.",
      user, name);
}

}  // namespace

Result<http::Endpoint> control_daemon(const std::string& socket) {
  return daemon_at(socket, "only a daemon changes GPUs, and none is running here");
}

int complain_without_daemon(const Error& error) {
  return complain(error, error.code == Errc::unavailable ? advice_without_daemon() : "");
}

int complain_about_control(const Error& error, const http::Endpoint& daemon) {
  switch (error.code) {
    case Errc::unavailable:
      if (init_failure_reason(error) != error.message) return complain_about_source(error);
      // Of those that answer, only those that nobody answers name the place.
      return error.message.find(daemon.text()) != std::string::npos ? complain_without_daemon(error)
                                                                    : complain(error);
    case Errc::timed_out:
      return complain(error, "  `gpuyard operations` says what is under way, and how it ends.");
    case Errc::denied: {
      const std::string user = own_name();
      return complain({error.code, with_own_name(error.message, user)},
                      advice_on_login(group_to_join(error.message), user));
    }
    default:
      return complain(error);
  }
}

std::string with_own_name(std::string message, std::string_view user) {
  const std::string group = group_to_join(message);
  if (group.empty()) return message;
  const std::string said = std::string(kJoin) + group + std::string(kJoiner);
  message.replace(message.find(said), said.size(), fmt::format("sudo {}{} {}", kJoin, group, user));
  return message;
}

}  // namespace gpuyard::cli
