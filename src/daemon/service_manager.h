// Talks to the service manager that started the daemon, systemd for one: that it is ready, what it
// does, and that it still makes progress. The protocol is that of sd_notify(3), a datagram to the
// socket in NOTIFY_SOCKET; without that variable every function does nothing.
#pragma once

#include <optional>
#include <string>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "base/worker.h"

namespace gpuyard::daemon {

// Thread: io.
class ServiceManager {
 public:
  // Reads and removes the variables of the protocol, so that no child of ours is taken for us. Call
  // it before a thread is started.
  static ServiceManager of_environment();

  // `socket` is a path, or "@name" in the abstract namespace; empty: there is no manager.
  // `watchdog`: it restarts us after so long without a sign of life.
  explicit ServiceManager(const std::string& socket, std::optional<Duration> watchdog = {});

  // `status` is a line for people, which `systemctl status` shows.
  void notify_ready(const std::string& status) const;
  void notify_stopping() const;

  // Gives signs of life, four in the manager's timeout. Each is a turn of the loop that has also
  // seen a turn of the worker, which writes what must survive: if either hangs there is none. The
  // loop turns no more once the worker has ended. The manager's clock runs from the start, so call
  // it before the loop turns.
  void start_watchdog(Loop& loop, Worker& worker);

 private:
  void send(const std::string& text) const;
  void schedule_watchdog_ping(Loop& loop, Worker& worker);

  UniqueFd socket_;
  std::optional<Duration> watchdog_timeout_;
  Subscription ping_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
