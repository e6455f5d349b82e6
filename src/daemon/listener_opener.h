// The listeners besides the daemon's main socket. Each opens independently: one that cannot open
// does not block others and is retried until it can.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/loop.h"
#include "base/result.h"

namespace gpuyard::daemon {

// Thread: io.
class ListenerOpener {
 public:
  static constexpr Duration kRetryDelay = std::chrono::seconds(5);

  // Returns where it listens, for the log.
  using OpenListener = std::function<Result<std::string>()>;
  // The name of each closed listener, and why.
  using ClosedListeners = std::map<std::string, std::string>;

  // Calls `on_opened` for each listener, inside add() or later.
  ListenerOpener(Loop& loop, std::function<void(const std::string& address)> on_opened)
      : loop_(loop), on_opened_(std::move(on_opened)) {}
  ListenerOpener(const ListenerOpener&) = delete;
  ListenerOpener& operator=(const ListenerOpener&) = delete;

  // Opens a listener now, or retries until it opens. `name` is its configuration key and address.
  void add(const std::string& name, OpenListener open);
  const ClosedListeners& closed() const { return closed_; }
  // Ends the retries. From now on add() opens nothing.
  void stop();

 private:
  void retry_closed();
  void try_open(const std::string& name, const OpenListener& open);

  Loop& loop_;
  const std::function<void(const std::string& address)> on_opened_;
  std::map<std::string, OpenListener> pending_;  // closed ones
  ClosedListeners closed_;
  bool stopped_ = false;
  Subscription retry_timer_;
};

}  // namespace gpuyard::daemon
