#include "core/processes/subordinate_uids.h"

#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "core/processes/user_names.h"

namespace gpuyard::processes {
namespace {

constexpr const char* kSubuidPath = "/etc/subuid";
constexpr std::size_t kMaxSubuidBytes = std::size_t{4} << 20U;

std::optional<uid_t> resolve_owner(std::string_view name,
                                   const SubordinateUids::UidLookup& uid_of) {
  if (const auto uid = parse_number<uid_t>(name)) return uid;
  const auto uid = uid_of(std::string(name));
  return uid ? std::optional(*uid) : std::nullopt;
}

}  // namespace

SubordinateUids SubordinateUids::parse(std::string_view text, const UidLookup& uid_of) {
  SubordinateUids all;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    const std::string_view name = take_until(':', line);
    const auto first = parse_number<uid_t>(take_until(':', line));
    const auto count = parse_number<uid_t>(line);
    if (name.empty() || !first || !count || *count == 0 || *first == 0) continue;
    constexpr uid_t kLastUid = std::numeric_limits<uid_t>::max() - 1;  // the next means no user
    if (*first > kLastUid) continue;
    const uid_t last = *count - 1 > kLastUid - *first ? kLastUid : *first + (*count - 1);
    const uid_t owner = resolve_owner(name, uid_of).value_or(0);
    all.ranges_.insert_or_assign(*first, Range{last, owner == 0 ? *first : owner});
  }
  return all;
}

SubordinateUids SubordinateUids::of_this_machine() {
  const auto text = read_file(kSubuidPath, kMaxSubuidBytes);
  if (text) return parse(*text, look_up_uid);
  log::debug("the owners of subordinate UIDs are unknown: {}", text.error().text());
  return {};
}

uid_t SubordinateUids::owner_of(uid_t uid) const {
  const auto after = ranges_.upper_bound(uid);
  if (after == ranges_.begin()) return uid;
  const auto& range = std::prev(after)->second;
  return uid <= range.last ? range.owner : uid;
}

}  // namespace gpuyard::processes
