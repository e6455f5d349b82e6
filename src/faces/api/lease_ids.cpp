#include "api/lease_ids.h"

#include <vector>

#include <fmt/format.h>

namespace gpuyard::api {
namespace {

constexpr std::size_t kMostLeasesNamed = 5;

Error ambiguous(std::string_view name, const std::vector<std::string>& found) {
  std::string all;
  for (std::size_t i = 0; i < found.size() && i < kMostLeasesNamed; ++i) {
    all += (all.empty() ? "" : ", ") + found[i];
  }
  if (found.size() > kMostLeasesNamed) all += ", ...";
  return {Errc::conflict,
          fmt::format("{} leases begin with \"{}\": {}; say more of the one that is meant",
                      found.size(), name, all)};
}

}  // namespace

Result<std::string> lease_named(const lease::Leases& leases, std::string_view name) {
  std::vector<std::string> live;
  std::vector<std::string> over;
  const auto& all = leases.leases();
  if (name.size() >= kShortestLeaseId) {
    for (auto one = all.lower_bound(name); one != all.end() && one->first.starts_with(name);
         ++one) {
      (one->second.state == lease::State::ended ? over : live).push_back(one->first);
    }
  }
  // No id is the beginning of another since one may not be chosen so; of older ones neither is
  // meant more than the other.
  if (leases.knows(name)) {
    live.insert(live.end(), over.begin(), over.end());
    if (live.size() > 1) return ambiguous(name, live);
    return std::string(name);
  }
  const std::vector<std::string>& meant = live.empty() ? over : live;
  if (meant.size() == 1) return meant.front();
  if (meant.size() > 1) return ambiguous(name, meant);
  return Error{Errc::not_found,
               fmt::format("there is no lease \"{}\"; one that is over is forgotten after a day. "
                           "`gpuyard leases` and `gpuyard queue` list those that are not",
                           name)};
}

}  // namespace gpuyard::api
