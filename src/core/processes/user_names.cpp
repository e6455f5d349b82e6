#include "processes/user_names.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "processes/valid_text.h"

namespace gpuyard::processes {

namespace {

// What `ask` makes of the room for an entry, more of which is given until it is enough. Returns
// whether there is such an entry; `take` has it as long as the call lasts.
template <typename Ask, typename Take>
Result<bool> find_user(const std::string& who, Ask ask, Take take) {
  constexpr std::size_t kLongestEntry = std::size_t{1} << 20U;
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  int failed = ask(&entry, room, &found);
  while (failed == ERANGE && room.size() < kLongestEntry) {
    room.resize(room.size() * 4);
    failed = ask(&entry, room, &found);
  }
  if (failed != 0) {
    return Error{Errc::unavailable,
                 fmt::format("looking up {}: {}", who, std::generic_category().message(failed))};
  }
  if (found != nullptr) take(entry);
  return found != nullptr;
}

}  // namespace

Result<std::string> look_up_user(uid_t uid) {
  constexpr std::size_t kLongestUserName = 256;
  std::string name;
  const auto found = find_user(
      fmt::format("the name of user {}", uid),
      [uid](passwd* entry, std::vector<char>& room, passwd** result) {
        return ::getpwuid_r(uid, entry, room.data(), room.size(), result);
      },
      [&name](const passwd& entry) { name = valid_text(entry.pw_name, kLongestUserName); });
  if (!found) return found.error();
  if (!*found) return Error{Errc::not_found, fmt::format("user {} has no name here", uid)};
  return name;
}

Result<uid_t> look_up_uid(const std::string& name) {
  uid_t uid = 0;
  const auto found = find_user(
      "the user " + name,
      [&name](passwd* entry, std::vector<char>& room, passwd** result) {
        return ::getpwnam_r(name.c_str(), entry, room.data(), room.size(), result);
      },
      [&uid](const passwd& entry) { uid = entry.pw_uid; });
  if (!found) return found.error();
  if (!*found) return Error{Errc::not_found, "there is no user " + name};
  return uid;
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
