#include "events/journal.h"

#include <sys/random.h>

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::events {
namespace {

std::string random_epoch() {
  std::uint64_t number = 0;
  // Short of entropy the kernel gives nothing; the time will not come back either.
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
    number =
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  return fmt::format("{:016x}", number);
}

}  // namespace

Journal::Journal() : epoch_(random_epoch()) {}

const Event& Journal::add(Event event) {
  event.sequence = ++last_;
  if (event.text.size() > kMostText) event.text.resize(kMostText);
  if (kept_.size() == kKept) kept_.pop_front();
  kept_.push_back(std::move(event));
  told_(kept_.back());
  return kept_.back();
}

bool Journal::remembers_since(std::uint64_t sequence) const {
  return sequence <= last_ && last_ - sequence <= kept_.size();
}

std::deque<Event>::const_iterator Journal::first_after(std::uint64_t sequence) const {
  const std::uint64_t after = last_ - std::min(sequence, last_);
  const std::size_t wanted = std::min<std::uint64_t>(after, kept_.size());
  return kept_.end() - static_cast<std::ptrdiff_t>(wanted);
}

}  // namespace gpuyard::events
