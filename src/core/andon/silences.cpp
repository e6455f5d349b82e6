#include "core/andon/silences.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpuyard::andon {

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
