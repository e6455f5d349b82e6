#include "lease/lease.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

Result<void> check(const Wish& wish) {
  if (wish.gpus == 0) return Error{Errc::invalid, "a lease of no GPU: ask for 1 or more"};
  if (wish.min_free_bytes < 0) return Error{Errc::invalid, "less than no memory is wanted"};
  if (wish.longest && *wish.longest <= Duration::zero()) {
    return Error{Errc::invalid, "the longest time is not longer than nothing"};
  }
  if (wish.patience && *wish.patience < Duration::zero()) {
    return Error{Errc::invalid, "the time to wait is less than nothing"};
  }
  if (wish.binding != Binding::detached) return {};
  if (wish.ttl < kShortestTtl || wish.ttl > kLongestTtl) {
    using std::chrono::seconds;
    return Error{Errc::invalid,
                 fmt::format("a detached lease lasts from {} to {} seconds without renewal",
                             std::chrono::duration_cast<seconds>(kShortestTtl).count(),
                             std::chrono::duration_cast<seconds>(kLongestTtl).count())};
  }
  return {};
}

std::string owner_of(std::string_view lease) {
  return std::string(kOwnerPrefix).append(lease);
}

std::string_view lease_of(std::string_view owner) {
  return owner.starts_with(kOwnerPrefix) ? owner.substr(kOwnerPrefix.size()) : std::string_view();
}

Result<void> check_id(std::string_view id) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  constexpr std::size_t kLongest = 64;
  if (!id.empty() && id.size() <= kLongest && std::all_of(id.begin(), id.end(), fits)) return {};
  return Error{Errc::invalid, "the id of a lease is 1 to 64 letters, digits, '-' and '_'"};
}

Error no_such_lease(std::string_view id) {
  return {Errc::not_found,
          fmt::format("there is no lease \"{}\"; one that is over is forgotten after a day", id)};
}

}  // namespace gpuyard::lease
