#include "cli/control_daemon.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/reading.h"
#include "cli/terminal.h"
#include "config/load.h"
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

bool lists_us(const group& entry) {
  const passwd* const us = ::getpwuid(::geteuid());
  if (us == nullptr) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (std::string_view(*member) == us->pw_name) return true;
  }
  return false;
}

// Who was added to the group has it from the next login on, which nobody but this process knows.
std::string advice_on_group() {
  const auto config = config::load(config::Environment::of_process(), "");
  const std::string name = config ? config->control.group : config::Config::Control().group;
  const group* const entry = ::getgrnam(name.c_str());
  if (entry == nullptr || has_group(entry->gr_gid) || !lists_us(*entry)) return "";
  return fmt::format(
      "  Your user is in the group \"{0}\" by now, but this login is older: log in anew, or run "
      "`newgrp {0}`.",
      name);
}

}  // namespace

Result<http::Endpoint> control_daemon(const std::string& socket) {
  return daemon_at(socket, "only a daemon changes GPUs, and none is running here");
}

int complain_about_control(const Error& error) {
  if (init_failure_reason(error) != error.message) return complain_about_source(error);
  if (error.code == Errc::unavailable) return complain(error, advice_without_daemon());
  if (error.code == Errc::denied) return complain(error, advice_on_group());
  return complain(error);
}

}  // namespace gpuyard::cli
