#include "processes/user_names.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "processes/valid_text.h"

namespace gpuyard::processes {

Result<std::string> look_up_user(uid_t uid) {
  constexpr std::size_t kLongestEntry = std::size_t{1} << 20U;
  constexpr std::size_t kLongestUserName = 256;
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  int failed = ::getpwuid_r(uid, &entry, room.data(), room.size(), &found);
  while (failed == ERANGE && room.size() < kLongestEntry) {
    room.resize(room.size() * 4);
    failed = ::getpwuid_r(uid, &entry, room.data(), room.size(), &found);
  }
  if (failed != 0) {
    return Error{Errc::unavailable, fmt::format("looking up the name of user {}: {}", uid,
                                                std::generic_category().message(failed))};
  }
  if (found == nullptr) return Error{Errc::not_found, fmt::format("user {} has no name here", uid)};
  return valid_text(entry.pw_name, kLongestUserName);
}

Result<gid_t> look_up_group(const std::string& name) {
  // The members are in the entry too, and may be many.
  std::vector<char> room(std::size_t{1} << 20U);
  group entry{};
  group* found = nullptr;
  const int failed = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
  if (failed != 0) {
    return Error{Errc::unavailable, fmt::format("looking up the group {}: {}", name,
                                                std::generic_category().message(failed))};
  }
  if (found == nullptr) return Error{Errc::not_found, "there is no group " + name};
  return entry.gr_gid;
}

Result<std::string> UserNames::of(uid_t uid, TimePoint now) {
  const auto known = known_.find(uid);
  if (known != known_.end() && now < known->second.until) return known->second.name;
  if (known_.size() >= kMost) {
    std::erase_if(known_, [&](const auto& entry) { return entry.second.until <= now; });
    if (known_.size() >= kMost) known_.clear();
  }
  auto name = look_up_(uid);
  known_.insert_or_assign(uid, Known{name, now + (name ? kKept : kFailureKept)});
  return name;
}

}  // namespace gpuyard::processes
