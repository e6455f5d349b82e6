#include "daemon/node_signals.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>

namespace gpuyard::daemon {
namespace {

// Returns nothing if it cannot be read.
std::optional<double> free_percent(const std::string& directory) {
  struct statvfs disk{};
  if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  return 100.0 * static_cast<double>(disk.f_bavail) / static_cast<double>(disk.f_blocks);
}

}  // namespace

void NodeSignals::read(const std::vector<notify::SinkStats>& sinks, andon::Signals& node) {
  node[andon::Signal::disk_free] = disk_free_percent_;
  double longest = 0;
  std::map<std::string, TimePoint> failing;
  for (const notify::SinkStats& one : sinks) {
    // The sink's own log has the refused messages.
    if (!one.closed && (!one.failing_since || one.queued == 0)) continue;
    const auto since = failing_since_.try_emplace(one.name, loop_.now()).first->second;
    failing.emplace(one.name, since);
    longest = std::max(longest, std::chrono::duration<double>(loop_.now() - since).count());
  }
  failing_since_ = std::move(failing);
  node[andon::Signal::sink_failing] = longest;
  if (access_.slurm_error != nullptr) {
    node[andon::Signal::slurm_trouble] = access_.slurm_error->empty() ? 0 : 1;
  }
  read_access(node);
}

void NodeSignals::read_access(andon::Signals& node) const {
  const WallTime now = loop_.wall();
  const auto days_until = [now](WallTime end) {
    using Days = std::chrono::duration<double, std::chrono::days::period>;
    return std::max(std::ceil(Days(end - now).count()), 0.0);
  };
  const metrics::TlsMetrics* const tls = access_.tls;
  if (tls != nullptr) {
    if (tls->expires_at) {
      node[andon::Signal::certificate_days] =
          days_until(WallTime(std::chrono::seconds(*tls->expires_at)));
    }
    node[andon::Signal::certificate_refused] = tls->reload_error.empty() ? 0 : 1;
  }
  if (access_.closed_listeners != nullptr) {
    node[andon::Signal::listeners_closed] = static_cast<double>(access_.closed_listeners->size());
  }
  constexpr Duration kLongLived = std::chrono::weeks(4);
  constexpr double kNoneEnds = 36'500;
  if (access_.tokens == nullptr) return;
  const auto end = access_.tokens->next_expiry(kLongLived);
  node[andon::Signal::token_days] = end ? days_until(*end) : kNoneEnds;
}

void NodeSignals::poll_disk() {
  disk_timer_ = loop_.call_after(kDiskPollInterval, [this] { poll_disk(); });
  run_on_worker(
      query_worker_, [directory = directory_] { return free_percent(directory); },
      lifetime_.guard([this](std::optional<double> percent) { disk_free_percent_ = percent; }));
}

}  // namespace gpuyard::daemon
