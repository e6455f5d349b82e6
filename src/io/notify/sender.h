// Sends to one sink: one try, without a queue. Each kind of sink says how a try failed; when to try
// again is decided elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/worker.h"
#include "io/notify/notification.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

// The result of one try to notify a sink, which decides what to do next.
struct SendResult {
  enum class Kind {
    delivered,  // the sink has it
    retry,      // try again
    rejected,   // trying again changes nothing
  };
  Kind kind = Kind::delivered;
  std::string reason = {};                   // no secret; "" if delivered
  std::optional<Duration> retry_after = {};  // how long the receiver asked us to wait

  static SendResult delivered() { return {}; }
  static SendResult retry_later(std::string why) { return {Kind::retry, std::move(why)}; }
  static SendResult rejected(std::string why) { return {Kind::rejected, std::move(why)}; }
};

// Thread: io, which it never blocks.
class Sender {
 public:
  using OnDone = std::function<void(SendResult)>;
  virtual ~Sender() = default;
  // Sends one notification, or several in one message if the sink's kind takes several (see
  // can_batch). `on_done` runs once, later and on the loop, unless this is destroyed first: the try
  // may then still happen, but `on_done` does not run. One call at a time.
  virtual void send(std::vector<Notification> notifications, OnDone on_done) = 0;
};

// Whether one message can carry all that is firing.
constexpr bool can_batch(SinkKind kind) {
  return kind == SinkKind::alertmanager;
}

using SenderFactory = std::function<std::unique_ptr<Sender>(const SinkConfig&)>;

// A worker for each sink over the network, with a thread of its own, named after it.
using WorkerFactory = std::function<std::unique_ptr<Worker>(const std::string& name)>;
WorkerFactory make_worker_factory(Loop& loop);

// Makes the real senders.
SenderFactory make_sender_factory(Loop& loop, WorkerFactory make_worker);

}  // namespace gpuyard::notify
