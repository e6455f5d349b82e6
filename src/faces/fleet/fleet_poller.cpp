#include "faces/fleet/fleet_poller.h"

#include <algorithm>

namespace gpuyard::fleet {

FleetPoller::FleetPoller(const std::vector<Host>& hosts, FanOutOptions options)
    : options_(std::move(options)) {
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
  std::vector<HostStatus> out;
  const MutexLock lock(mutex_);
  for (const HostState& host : hosts_) out.push_back(host.status);
  return out;
}

void FleetPoller::run_worker(const std::stop_token& stop) {
  while (HostState* const host = wait_for_due(stop)) poll_host(*host);
}

// Waits until a host is due; null: stop was requested.
FleetPoller::HostState* FleetPoller::wait_for_due(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto order = [](const HostState& host) {
      return host.in_flight ? TimePoint::max() : host.due_at;
    };
    const auto first = std::ranges::min_element(hosts_, {}, order);
    const Duration left = order(*first) - BootClock::now();
    if (left <= Duration::zero()) {
      first->in_flight = true;
      return &*first;
    }
    due_condition_.wait_for(mutex_, stop, std::min(left, Duration(kPollInterval)),
                            [] { return false; });
  }
  return nullptr;
}

void FleetPoller::poll_host(HostState& host) {
  const TimePoint begin = BootClock::now();
  const auto endpoint = host.endpoint ? Result<http::Endpoint>(*host.endpoint)
                                      : endpoint_of(host.status.reply.host, options_);
  auto brief =
      endpoint ? fetch_brief(*endpoint, options_) : Result<protocol::Brief>(endpoint.error());
  const MutexLock lock(mutex_);
  const TimePoint now = BootClock::now();
  host.status.reply.took = now - begin;
  host.status.reply.problem =
      brief ? std::nullopt
            : std::optional(endpoint ? add_token_hint(brief.error(), *endpoint, options_)
                                     : brief.error());
  if (brief) {
    host.status.reply.answer = *brief;
    host.status.replied_at = now;
  }
  if (endpoint && hosts_.size() <= kMaxKeptConnections) host.endpoint = *endpoint;
  constexpr int kMaxDoublings = 5;
  host.failures = brief ? 0 : std::min(host.failures + 1, kMaxDoublings);
  host.due_at =
      brief ? std::max(begin + kPollInterval, now)
            : now + std::min<Duration>(kMaxPollInterval, kPollInterval * (1 << host.failures));
  host.in_flight = false;
}

}  // namespace gpuyard::fleet
