// Sends the replies to the reads of one message in one message, too, so that the daemon wakes up
// once for all GPUs.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu/driver/message.h"

namespace gpuyard::driver {

class ReplyCollector {
 public:
  // `send` is called on the thread of the last reply, or of send_late().
  explicit ReplyCollector(std::function<void(ReadReplies)> send) : send_(std::move(send)) {}

  // Called before the first of these reads begins.
  void expect(const ReadRequests&, TimePoint now);
  // Sends the reply at once if no other is expected with it.
  void add(ReadReply);

  // Returns when send_late() is to be called; nothing while no reply is expected with another.
  std::optional<TimePoint> deadline() const;
  // Sends what waits for the replies of slower GPUs. These are sent alone then.
  void send_late(TimePoint now);

  // A GPU delays the replies of others by at most this time.
  static constexpr Duration kMaxDelay = std::chrono::milliseconds(2);

 private:
  struct Batch {
    TimePoint deadline;
    std::vector<std::uint64_t> missing;  // ids of requests
    ReadReplies replies;
  };

  const std::function<void(ReadReplies)> send_;
  mutable Mutex mutex_;
  std::list<Batch> batches_ GUARDED_BY(mutex_);  // oldest first
};

}  // namespace gpuyard::driver
