#include "core/processes/user_names.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/processes/proc_files.h"

namespace gpuyard::processes {
namespace {

// Looks a key up with `lookup`, a function like getpwnam_r(3). Gives it more room for the entry
// until that is enough; `take` may use the entry only while it is called.
template <class Key, class Entry, class Take>
auto find_entry(int (*lookup)(Key, Entry*, char*, std::size_t, Entry**), Key key,
                const std::string& what, std::string none, Take take)
    -> Result<decltype(take(Entry{}))> {
  constexpr std::size_t kMaxEntryBytes = std::size_t{1} << 20U;  // bytes, with a group's members
  std::vector<char> buffer(4096);
  Entry entry{};
  Entry* found = nullptr;
  int failed = lookup(key, &entry, buffer.data(), buffer.size(), &found);
  while (failed == ERANGE && buffer.size() < kMaxEntryBytes) {
    buffer.resize(buffer.size() * 4);
    failed = lookup(key, &entry, buffer.data(), buffer.size(), &found);
  }
  if (failed != 0) {
    return Error{Errc::unavailable,
                 fmt::format("looking up {}: {}", what, std::generic_category().message(failed))};
  }
  if (found == nullptr) return Error{Errc::not_found, std::move(none)};
  return take(entry);
}

}  // namespace

Result<std::string> look_up_user(uid_t uid) {
  constexpr std::size_t kMaxUserNameLength = 256;
  return find_entry(
      ::getpwuid_r, uid, fmt::format("the name of user {}", uid),
      fmt::format("uid {} has no user name on this machine", uid),
      [](const passwd& entry) { return valid_text(entry.pw_name, kMaxUserNameLength); });
}

Result<bool> look_up_membership(uid_t uid, gid_t gid) {
  struct Who {
    std::string name;
    gid_t own;
  };
  const auto user =
      find_entry(::getpwuid_r, uid, fmt::format("the groups of user {}", uid),
                 fmt::format("uid {} has no user name on this machine", uid),
                 [](const passwd& entry) { return Who{entry.pw_name, entry.pw_gid}; });
  if (!user) return user.error();
  constexpr int kMaxGroups = 65536;  // of the kernel's
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  while (::getgrouplist(user->name.c_str(), user->own, groups.data(), &count) < 0 &&
         count <= kMaxGroups) {
    groups.resize(std::max<std::size_t>(groups.size() * 2, static_cast<std::size_t>(count)));
    count = static_cast<int>(groups.size());
  }
  groups.resize(std::min(groups.size(), static_cast<std::size_t>(std::max(count, 0))));
  return std::ranges::find(groups, gid) != groups.end();
}

Result<uid_t> look_up_uid(const std::string& name) {
  return find_entry(::getpwnam_r, name.c_str(), "the user " + name, "unknown user " + name,
                    [](const passwd& entry) { return entry.pw_uid; });
}

Result<gid_t> look_up_group(const std::string& name) {
  return find_entry(::getgrnam_r, name.c_str(), "the group " + name, "unknown group " + name,
                    [](const group& entry) { return entry.gr_gid; });
}

Result<std::string> UserNames::name_of(uid_t uid, TimePoint now) {
  const auto known = cache_.find(uid);
  if (known != cache_.end() && now < known->second.expires_at) return known->second.name;
  if (cache_.size() >= kMaxNames) {
    std::erase_if(cache_, [&](const auto& entry) { return entry.second.expires_at <= now; });
    if (cache_.size() >= kMaxNames) cache_.clear();
  }
  auto name = look_up_(uid);
  cache_.insert_or_assign(uid, CachedName{name, now + (name ? kNameRetention : kFailureRetention)});
  return name;
}

}  // namespace gpuyard::processes
