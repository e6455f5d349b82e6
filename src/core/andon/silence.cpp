#include "andon/silence.h"

#include <algorithm>

namespace gpuyard::andon {

bool Silence::covers(const Alert& alert) const {
  return (rule.empty() || rule == alert.rule) && (gpu.empty() || gpu == alert.gpu);
}

void SilenceBook::put(Silence silence, TimePoint now, WallTime wall) {
  // A clock that is behind, as after a start without one, makes no silence longer than it was.
  const Duration whole =
      std::clamp<Duration>(silence.until - silence.since, Duration::zero(), kLongest);
  const auto left = std::clamp<Duration>(silence.until - wall, Duration::zero(), whole);
  const std::string id = silence.id;
  book_.insert_or_assign(id, Entry{std::move(silence), now + left});
}

std::vector<std::string> SilenceBook::expire(TimePoint now) {
  std::vector<std::string> over;
  for (const auto& [id, entry] : book_) {
    if (entry.until <= now) over.push_back(id);
  }
  for (const std::string& id : over) book_.erase(id);
  return over;
}

bool SilenceBook::covers(const Alert& alert) const {
  return std::ranges::any_of(book_,
                             [&](const auto& one) { return one.second.silence.covers(alert); });
}

std::vector<Silence> SilenceBook::all() const {
  std::vector<Silence> all;
  for (const auto& [id, entry] : book_) all.push_back(entry.silence);
  std::ranges::sort(all, {}, &Silence::until);
  return all;
}

}  // namespace gpuyard::andon
