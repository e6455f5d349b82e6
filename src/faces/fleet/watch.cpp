#include "fleet/watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace gpuyard::fleet {

Watch::Watch(const std::vector<Host>& hosts, Manner manner)
    : manner_(std::move(manner)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const Host& host : hosts) yards_.push_back({{{host}}, {}, BootClock::now()});
  const std::size_t workers = std::min(hosts.size(), kAtOnce);
  for (std::size_t i = 0; i < workers; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Watch::~Watch() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::vector<LastWord> Watch::words() {
  std::uint64_t rung = 0;
  static_cast<void>(::read(bell_.get(), &rung, sizeof rung));
  std::vector<LastWord> words;
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
  yard.word.heard.problem = brief ? std::nullopt : std::optional(brief.error());
  if (brief) {
    yard.word.heard.answer = *std::move(brief);
    yard.word.came = now;
  }
  if (way && yards_.size() <= kMostKept) yard.way = *way;
  yard.due = std::max(begin + kEvery, now);
  yard.being_asked = false;
  const std::uint64_t one = 1;
  static_cast<void>(::write(bell_.get(), &one, sizeof one));
}

}  // namespace gpuyard::fleet
