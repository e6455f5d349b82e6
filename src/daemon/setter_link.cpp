#include "daemon/setter_link.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/files.h"
#include "base/helper_socket.h"
#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/config_check.h"
#include "faces/library/driver_source.h"
#include "gpu/driver/execute_command.h"
#include "gpu/driver/setter.h"

namespace gpuyard::daemon {

SetterLink::SetterLink(Loop& loop, driver::DriverHostClient::Spawn spawn, std::string version,
                       SetterListener listener)
    : loop_(loop),
      listener_(std::move(listener)),
      client_(loop, [this, spawn = std::move(spawn)] { return connect(spawn); }, *this,
              {"setter", true, std::move(version)}) {}

Result<driver::DriverHostProcess> SetterLink::connect(
    const driver::DriverHostClient::Spawn& spawn) {
  auto process = spawn();
  refusal_ = process ? std::nullopt : std::optional(process.error());
  return process;
}

bool SetterLink::submit(const CommandRequest& request) {
  if (available_) return send(request);
  if (error()) return false;
  waiting_.push_back(request);
  return true;
}

bool SetterLink::send(const CommandRequest& request) {
  if (!client_.send_command(request)) return false;
  in_flight_[request.id] = request;
  return true;
}

std::optional<Error> SetterLink::error() const {
  if (available_) return std::nullopt;
  if (refusal_) return refusal_;
  if (client_.is_available_soon()) return std::nullopt;
  return Error{Errc::unavailable, "the setter is restarting; nothing was changed, try again"};
}

void SetterLink::refuse_waiting(const Error& why) {
  for (const CommandRequest& request : std::exchange(waiting_, {})) {
    listener_.on_reply(driver::refused_reply(request, why));
  }
}

void SetterLink::on_inventory(const Inventory& inventory) {
  indexes_.clear();
  for (const DeviceInfo& device : inventory.devices) indexes_[device.id] = device.index;
  logged_error_.clear();
  if (std::exchange(available_, true)) return;
  const Error busy{Errc::busy, "the setter is too busy; nothing was changed, try again"};
  for (const CommandRequest& request : std::exchange(waiting_, {})) {
    if (!send(request)) listener_.on_reply(driver::refused_reply(request, busy));
  }
  listener_.on_available();
}

// Also comes from a setter that has changed GPUs, if it ends because of an invalid record.
void SetterLink::on_no_driver(const Error& error) {
  refusal_ = error;
  const bool was_available = std::exchange(available_, false);
  in_flight_.clear();
  if (std::exchange(logged_error_, error.text()) != error.text()) {
    log::warning("no GPU can be changed: {}", error.text());
  }
  refuse_waiting(error);
  if (was_available) listener_.on_unavailable();
}

void SetterLink::on_command_reply(const CommandReply& reply) {
  const auto found = in_flight_.extract(reply.id);
  listener_.on_reply(reply);
  if (!found) return;
  const auto index = indexes_.find(reply.device);
  // The client's response goes first.
  loop_.post([reply, request = std::move(found.mapped()),
              gpu = index == indexes_.end() ? 0 : index->second] {
    driver::log_command(gpu, request, reply);
  });
}

void SetterLink::on_host_down(const std::string& why) {
  available_ = false;
  in_flight_.clear();
  if (std::exchange(logged_error_, why) != why)
    log::warning("no GPU can be changed for now: {}", why);
  refuse_waiting(refusal_.value_or(
      Error{Errc::unavailable, "the setter is unavailable; nothing was changed, try again"}));
  listener_.on_unavailable();
}

namespace {

Result<driver::DriverHostProcess> connect_to_setter(const std::string& address) {
  const auto unreachable = [&](Error why) {
    why.code = Errc::denied;
    why.cause = why.message;
    why.message = "the setter, which changes GPUs, cannot be reached";
    why.hint = "sudo systemctl start gpuyard-setter.socket";
    return why;
  };
  auto socket = connect_to_helper(address);
  if (!socket) return unreachable(socket.error());
  return driver::DriverHostProcess{-1, {}, *std::move(socket)};
}

struct SetterArguments {
  std::string config;
  std::string state;
};

SetterArguments parse_setter_arguments(const std::vector<std::string>& words) {
  SetterArguments arguments;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--config") arguments.config = words[i + 1];
    if (words[i] == "--state") arguments.state = words[i + 1];
  }
  return arguments;
}

// A service manager names the directory of the setter's own user.
std::string change_log_path(const SetterArguments& arguments, const config::Config& config) {
  std::string directory = arguments.state;
  if (const char* const own = std::getenv("STATE_DIRECTORY"); directory.empty() && own != nullptr) {
    directory = own;
  }
  return (directory.empty() ? config.state.directory : directory) + "/changes.log";
}

void serve_daemon(UniqueFd socket, const std::vector<std::string>& words,
                  const std::string& simulated_library, const std::string& version) {
  const auto refuse = [&](const Error& why) { driver::send_refusal(socket.get(), why, version); };
  if (auto known = check_daemon(socket.get()); !known) return refuse(known.error());
  const SetterArguments arguments = parse_setter_arguments(words);
  const auto config = config::load(Environment::current(), arguments.config);
  if (!config) {
    return refuse({Errc::denied, "the setter's configuration: " + config.error().text()});
  }
  log::set_level(config->log.level);
  if (auto library = check_library(config->driver.nvml); !library) {
    return refuse({Errc::denied, library.error().text()});
  }
  if (!config->control.enabled) {
    return refuse({Errc::denied, "control.enabled is not true in the configuration of the setter"});
  }
  auto choice = library::choice_of(words, simulated_library);
  if (choice.path.empty() && arguments.state.empty()) {
    choice = library::choose_nvml(config->driver.nvml, simulated_library);
  }
  driver::serve_setter(
      std::move(socket), [&] { return library::open_driver(choice); },
      {setter_policy(config->control), change_log_path(arguments, *config), version});
}

}  // namespace

driver::SetterPolicy setter_policy(const config::Config::Control& control) {
  constexpr std::int64_t kMilli = 1000;
  driver::SetterPolicy policy;
  if (control.lowest_w > 0) policy.lowest_mw = control.lowest_w * kMilli;
  if (control.highest_w > 0) policy.highest_mw = control.highest_w * kMilli;
  policy.changes_a_minute = control.gpu_changes_a_minute;
  return policy;
}

driver::DriverHostClient::Spawn make_setter_spawn(std::string address,
                                                  std::vector<std::string> arguments) {
  if (!address.empty()) {
    return [address = std::move(address)] { return connect_to_setter(address); };
  }
  return [arguments = std::move(arguments)] { return driver::spawn_host(arguments, "setter"); };
}

void run_setter(const std::vector<std::string>& arguments, const std::string& simulated_library,
                const std::string& version) {
  ::prctl(PR_SET_NAME, "gpuyard-setter");  // started as /proc/self/exe, it would be called "exe"
  UniqueFd socket = driver::begin_child_process("setter", capability_bit(CAP_SYS_ADMIN));
  library::lower_descriptor_limit(arguments);
  serve_daemon(std::move(socket), arguments, simulated_library, version);
  ::_exit(0);
}

}  // namespace gpuyard::daemon
