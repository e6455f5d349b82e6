// The names of the daemon's alerts.
#include "core/andon/alert.h"

#include <algorithm>

namespace gpuyard::andon {
namespace {

constexpr std::string_view kOwnerPrefix = "andon:";

}  // namespace

int worst_severity(const Alert& alert) {
  return std::max(alert.severity, alert.notified_severity.value_or(0));
}

std::string key_of(const Alert& alert) {
  return alert.rule + "/" + (alert.gpu.empty() ? "node" : alert.gpu);
}

std::string owner_of_cap(std::string_view rule) {
  return std::string(kOwnerPrefix) + std::string(rule);
}

std::string_view rule_of_owner(std::string_view owner) {
  return owner.starts_with(kOwnerPrefix) ? owner.substr(kOwnerPrefix.size()) : std::string_view{};
}

int thermal_severity(double celsius, double threshold) {
  constexpr int kBaseSeverity = 50;
  constexpr double kMaxExcess = 50;
  const double excess = celsius - threshold;
  if (!(excess > 0)) return kBaseSeverity;  // NaN too
  return kBaseSeverity + static_cast<int>(std::min(excess, kMaxExcess));
}

int memory_severity(double used_percent) {
  if (used_percent >= 99) return 100;
  return used_percent >= 95 ? 80 : 60;
}

int power_severity(double percent_of_limit) {
  return percent_of_limit >= 100 ? 70 : 50;
}

int idle_severity(double idle_secs, double timeout_secs) {
  if (idle_secs > 2 * timeout_secs) return 90;
  return idle_secs > 1.5 * timeout_secs ? 70 : 40;
}

AlertLevel level_of(int severity) {
  if (severity >= 80) return AlertLevel::critical;
  if (severity >= 60) return AlertLevel::error;
  return severity >= 40 ? AlertLevel::warning : AlertLevel::info;
}

bool Silence::matches(const Alert& alert) const {
  return (rule.empty() || rule == alert.rule) && (gpu.empty() || gpu == alert.gpu);
}

void SilenceTable::put(Silence silence, TimePoint now, WallTime wall) {
  // If the wall clock is behind, as after a boot without a clock, no silence gets longer than it
  // was.
  const Duration whole =
      std::clamp<Duration>(silence.until - silence.since, Duration::zero(), kMaxDuration);
  const auto left = std::clamp<Duration>(silence.until - wall, Duration::zero(), whole);
  const std::string id = silence.id;
  entries_.insert_or_assign(id, Entry{std::move(silence), now + left});
}

std::optional<std::string> SilenceTable::find_id(std::string_view name) const {
  const auto first = entries_.lower_bound(std::string(name));
  if (name.empty() || first == entries_.end() || !first->first.starts_with(name))
    return std::nullopt;
  const auto next = std::next(first);
  const bool only = next == entries_.end() || !next->first.starts_with(name);
  return only || first->first == name ? std::optional(first->first) : std::nullopt;
}

std::vector<std::string> SilenceTable::expire(TimePoint now) {
  std::vector<std::string> expired;
  for (const auto& [id, entry] : entries_) {
    if (entry.until <= now) expired.push_back(id);
  }
  for (const std::string& id : expired) entries_.erase(id);
  return expired;
}

bool SilenceTable::is_silenced(const Alert& alert) const {
  return std::ranges::any_of(entries_,
                             [&](const auto& one) { return one.second.silence.matches(alert); });
}

std::vector<Silence> SilenceTable::all() const {
  std::vector<Silence> all;
  for (const auto& [id, entry] : entries_) all.push_back(entry.silence);
  std::ranges::sort(all, {}, &Silence::until);
  return all;
}

}  // namespace gpuyard::andon
