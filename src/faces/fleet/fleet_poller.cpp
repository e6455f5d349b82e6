#include "faces/fleet/fleet_poller.h"

#include <algorithm>

namespace gpuyard::fleet {

Watch::Watch(const std::vector<Host>& hosts, Manner manner) : manner_(std::move(manner)) {
  for (const Host& host : hosts) yards_.push_back({{{host}}, {}, BootClock::now()});
  const std::size_t workers = std::min(hosts.size(), kAtOnce);
  for (std::size_t i = 0; i < workers; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Watch::~Watch() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::vector<HostStatus> Watch::words() const {
  std::vector<HostStatus> words;
  const std::scoped_lock lock(mutex_);
  for (const Yard& yard : yards_) words.push_back(yard.word);
  return words;
}

void Watch::work(const std::stop_token& stop) {
  while (Yard* const yard = take_due(stop)) ask(*yard);
}

// Waits for the yard that is to be asked first; null: asked to stop.
Watch::Yard* Watch::take_due(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto order = [](const Yard& yard) {
      return yard.being_asked ? TimePoint::max() : yard.due;
    };
    const auto first = std::ranges::min_element(yards_, {}, order);
    const Duration left = order(*first) - BootClock::now();
    if (left <= Duration::zero()) {
      first->being_asked = true;
      return &*first;
    }
    due_.wait_for(lock, stop, std::min(left, Duration(kEvery)), [] { return false; });
  }
  return nullptr;
}

void Watch::ask(Yard& yard) {
  const TimePoint begin = BootClock::now();
  const auto way =
      yard.way ? Result<http::Endpoint>(*yard.way) : way_to(yard.word.heard.host, manner_);
  auto brief = way ? ask_brief(*way, manner_) : Result<protocol::Brief>(way.error());
  const std::scoped_lock lock(mutex_);
  const TimePoint now = BootClock::now();
  yard.word.heard.took = now - begin;
  yard.word.heard.problem =
      brief ? std::nullopt
            : std::optional(way ? with_audience(brief.error(), *way, manner_) : brief.error());
  if (brief) {
    yard.word.heard.answer = *brief;
    yard.word.came = now;
  }
  if (way && yards_.size() <= kMostKept) yard.way = *way;
  constexpr int kMostDoublings = 5;
  yard.failures = brief ? 0 : std::min(yard.failures + 1, kMostDoublings);
  yard.due = brief ? std::max(begin + kEvery, now)
                   : now + std::min<Duration>(kSeldom, kEvery * (1 << yard.failures));
  yard.being_asked = false;
}

}  // namespace gpuyard::fleet
