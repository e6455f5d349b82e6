#include "faces/fleet/fleet_poller.h"

#include <algorithm>

namespace gpuyard::fleet {

FleetPoller::FleetPoller(const std::vector<Host>& hosts, FanOutOptions manner)
    : options_(std::move(manner)) {
  for (const Host& host : hosts) hosts_.push_back({{{host}}, {}, BootClock::now()});
  const std::size_t workers = std::min(hosts.size(), kMaxWorkers);
  for (std::size_t i = 0; i < workers; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run_worker(stop); });
  }
}

FleetPoller::~FleetPoller() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::vector<HostStatus> FleetPoller::statuses() const {
  std::vector<HostStatus> words;
  const std::scoped_lock lock(mutex_);
  for (const HostState& yard : hosts_) words.push_back(yard.status);
  return words;
}

void FleetPoller::run_worker(const std::stop_token& stop) {
  while (HostState* const yard = wait_for_due(stop)) poll_host(*yard);
}

// Waits for the yard that is to be asked first; null: asked to stop.
FleetPoller::HostState* FleetPoller::wait_for_due(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto order = [](const HostState& yard) {
      return yard.in_flight ? TimePoint::max() : yard.due_at;
    };
    const auto first = std::ranges::min_element(hosts_, {}, order);
    const Duration left = order(*first) - BootClock::now();
    if (left <= Duration::zero()) {
      first->in_flight = true;
      return &*first;
    }
    due_condition_.wait_for(lock, stop, std::min(left, Duration(kPollInterval)),
                            [] { return false; });
  }
  return nullptr;
}

void FleetPoller::poll_host(HostState& yard) {
  const TimePoint begin = BootClock::now();
  const auto way = yard.endpoint ? Result<http::Endpoint>(*yard.endpoint)
                                 : endpoint_of(yard.status.reply.host, options_);
  auto brief = way ? fetch_brief(*way, options_) : Result<protocol::Brief>(way.error());
  const std::scoped_lock lock(mutex_);
  const TimePoint now = BootClock::now();
  yard.status.reply.took = now - begin;
  yard.status.reply.problem =
      brief ? std::nullopt
            : std::optional(way ? add_token_hint(brief.error(), *way, options_) : brief.error());
  if (brief) {
    yard.status.reply.answer = *brief;
    yard.status.replied_at = now;
  }
  if (way && hosts_.size() <= kMaxKeptConnections) yard.endpoint = *way;
  constexpr int kMostDoublings = 5;
  yard.failures = brief ? 0 : std::min(yard.failures + 1, kMostDoublings);
  yard.due_at =
      brief ? std::max(begin + kPollInterval, now)
            : now + std::min<Duration>(kMaxPollInterval, kPollInterval * (1 << yard.failures));
  yard.in_flight = false;
}

}  // namespace gpuyard::fleet
