#include "library/pending_reply.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::library {

void PendingReply::Slot::deliver(const CommandReply& answer) {
  std::unique_lock lock(mutex);
  if (left) {
    lock.unlock();
    return log::error("Failed to send response to caller");
  }
  reply = answer;
  lock.unlock();
  changed.notify_all();
}

PendingReply::PendingReply(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
PendingReply::PendingReply(PendingReply&&) noexcept = default;

PendingReply& PendingReply::operator=(PendingReply&& other) noexcept {
  if (this == &other) return *this;
  leave();
  slot_ = std::move(other.slot_);
  return *this;
}

PendingReply::~PendingReply() {
  leave();
}

void PendingReply::leave() {
  if (!slot_) return;
  const std::lock_guard lock(slot_->mutex);
  slot_->left = true;
}

Result<CommandReply> PendingReply::wait(Duration at_most) {
  std::unique_lock lock(slot_->mutex);
  if (slot_->taken) return Error{Errc::invalid, "this command's answer was taken already"};
  if (!slot_->changed.wait_for(lock, at_most, [&] { return slot_->reply.has_value(); })) {
    return Error{Errc::timed_out, fmt::format("the GPU has not done it within {} ms; it may still",
                                              to_milliseconds(at_most))};
  }
  slot_->taken = true;
  if (slot_->reply->failure) return slot_->reply->failure->error();
  return *slot_->reply;
}

}  // namespace gpuyard::library
