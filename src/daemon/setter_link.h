// The daemon's way to the setter, the process that changes GPUs. A change that comes while the
// setter starts waits for it. Thread: io.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "gpu/driver/driver_host_client.h"
#include "gpu/driver/setter.h"

namespace gpuyard::daemon {

struct SetterListener {
  std::function<void(const CommandReply&)> on_reply;
  std::function<void()> on_available;    // the setter can change GPUs again
  std::function<void()> on_unavailable;  // open requests get no answer
};

class SetterLink final : private driver::DriverHostListener {
 public:
  SetterLink(Loop&, driver::DriverHostClient::Spawn, std::string version, SetterListener);

  void start() { client_.start(); }
  // Returns false if the setter is not there, or is too busy: error() says why.
  bool submit(const CommandRequest&);
  // Why the setter takes no changes, if it takes none. Errc::denied: it cannot be reached, or may
  // not set.
  std::optional<Error> error() const;

  // See DriverHostClient.
  void pause(std::function<void(Result<void>)> on_paused) { client_.pause(std::move(on_paused)); }
  void resume() { client_.resume(); }
  void renew(const std::string& why) { client_.restart(why); }
  void hurry() { client_.start_now(); }

 private:
  Result<driver::DriverHostProcess> connect(const driver::DriverHostClient::Spawn&);
  bool send(const CommandRequest&);
  void refuse_waiting(const Error&);
  void on_inventory(const Inventory&) override;
  void on_no_driver(const Error&) override;
  void on_replies(const std::vector<ReadReply>&) override {}
  void on_event(const DeviceEvent&) override {}
  void on_command_reply(const CommandReply&) override;
  void on_host_down(const std::string& why) override;

  Loop& loop_;
  const SetterListener listener_;
  bool available_ = false;
  std::optional<Error> refusal_;         // it cannot be reached, or it said that it cannot set
  std::string logged_error_;             // in the log
  std::vector<CommandRequest> waiting_;  // for the setter's first message; one of each GPU at most
  std::map<std::uint64_t, CommandRequest> in_flight_;
  std::map<DeviceId, std::uint32_t> indexes_;
  driver::DriverHostClient client_;
};

// Returns how to get a setter: over the socket at `address`, or, without one, by starting a child
// with these arguments.
driver::DriverHostClient::Spawn make_setter_spawn(std::string address,
                                                  std::vector<std::string> arguments);

// Returns what a setter with this configuration refuses.
driver::SetterPolicy setter_policy(const config::Config::Control&);

// The environment variable with that address: a service manager holds the socket.
inline constexpr const char* kSetterVariable = "GPUYARD_SETTER";

// Runs the hidden verb `setter`. It reads the library and the bounds in the configuration itself.
// `arguments`: "--config FILE", "--state DIR" and a driver as library::arguments_of() writes it,
// where the daemon has started it.
[[noreturn]] void run_setter(const std::vector<std::string>& arguments,
                             const std::string& simulated_library, const std::string& version);

}  // namespace gpuyard::daemon
