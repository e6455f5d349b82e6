// The messages that their sinks have not accepted yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/andon/alert_storage.h"

namespace gpuyard::andon {

class Outbox {
 public:
  static constexpr std::size_t kMaxMessages = 8192;  // more are only sent

  // Returns the place in the order of the next message.
  std::uint64_t next_order() { return next_order_++; }
  // Places of messages begin here.
  void start_at(std::uint64_t order) { next_order_ = order; }

  void restore(const std::vector<OutboxMessage>& saved) {
    for (const OutboxMessage& one : saved) {
      messages_.emplace(one.id, one);
      next_order_ = std::max(next_order_, one.order + 1);
    }
  }
  // Returns false if the message is there already, or if there are too many.
  bool add(const OutboxMessage& one) {
    return messages_.size() < kMaxMessages && messages_.emplace(one.id, one).second;
  }
  bool remove(const std::string& id) { return messages_.erase(id) > 0; }

  const std::map<std::string, OutboxMessage>& messages() const { return messages_; }

 private:
  std::map<std::string, OutboxMessage> messages_;
  std::uint64_t next_order_ = 1;
};

}  // namespace gpuyard::andon
