#include "gpu/driver/reply_collector.h"

#include <algorithm>
#include <utility>

namespace gpuyard::driver {

void ReplyCollector::expect(const ReadRequests& requests, TimePoint now) {
  if (requests.size() < 2) return;
  Batch batch;
  batch.deadline = now + kMaxDelay;
  for (const ReadRequest& request : requests) batch.missing.push_back(request.id);
  const MutexLock lock(mutex_);
  batches_.push_back(std::move(batch));
}

void ReplyCollector::add(ReadReply reply) {
  ReadReplies complete;
  {
    const MutexLock lock(mutex_);
    const auto batch = std::ranges::find_if(
        batches_, [&](Batch& one) { return std::erase(one.missing, reply.id) > 0; });
    if (batch == batches_.end()) {
      complete.push_back(std::move(reply));
    } else {
      batch->replies.push_back(std::move(reply));
      if (!batch->missing.empty()) return;
      complete = std::move(batch->replies);
      batches_.erase(batch);
    }
  }
  send_(std::move(complete));
}

std::optional<TimePoint> ReplyCollector::deadline() const {
  const MutexLock lock(mutex_);
  return batches_.empty() ? std::nullopt : std::optional(batches_.front().deadline);
}

void ReplyCollector::send_late(TimePoint now) {
  ReadReplies late;
  {
    const MutexLock lock(mutex_);
    while (!batches_.empty() && batches_.front().deadline <= now) {
      std::ranges::move(batches_.front().replies, std::back_inserter(late));
      batches_.pop_front();
    }
  }
  if (!late.empty()) send_(std::move(late));
}

}  // namespace gpuyard::driver
