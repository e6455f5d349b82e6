// The names of users, remembered for some time. Asking the system may wait for a directory service.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::processes {

// Asks the system for the name of a user; Errc::not_found if no user has this number. May wait for
// the network.
Result<std::string> look_up_user(uid_t);

// Returns the number of a user. May wait for the network.
Result<uid_t> look_up_uid(const std::string& name);

// Returns the number of a group. May wait for the network.
Result<gid_t> look_up_group(const std::string& name);

// Returns whether a user is of a group now: the user's own group, or one that lists the user. May
// wait for the network.
Result<bool> look_up_membership(uid_t, gid_t);

// Lives on one thread. May wait for the network.
class UserNames {
 public:
  using NameLookup = std::function<Result<std::string>(uid_t)>;

  static constexpr std::size_t kMaxNames = 1024;
  static constexpr Duration kNameRetention = std::chrono::minutes(10);
  static constexpr Duration kFailureRetention = std::chrono::minutes(1);

  explicit UserNames(NameLookup look_up = look_up_user) : look_up_(std::move(look_up)) {}

  Result<std::string> name_of(uid_t, TimePoint now);

 private:
  struct CachedName {
    Result<std::string> name;
    TimePoint expires_at;
  };

  NameLookup look_up_;
  std::map<uid_t, CachedName> cache_;
};

// The uids that a user may take beside the own one, in containers without root for example. The
// kernel treats each as a user; quotas are counted for the one user who has them all.
class SubordinateUids {
 public:
  using UidLookup = std::function<Result<uid_t>(const std::string& name)>;

  // No user has subordinate uids.
  SubordinateUids() = default;
  // Reads lines like those of /etc/subuid, `NAME-OR-UID:FIRST:COUNT` (subuid(5)). Other lines are
  // left out. If ranges overlap, the one that begins last counts.
  static SubordinateUids parse(std::string_view text, const UidLookup& uid_of);
  // Reads this machine's file, if it has one. May wait for the network.
  static SubordinateUids of_this_machine();

  // Returns the user in whose range the uid lies, or the uid itself. A range of root's, or of an
  // unknown name, is a user of its own: its uids get none of root's rights.
  uid_t owner_of(uid_t) const;

 private:
  struct Range {
    uid_t last = 0;
    uid_t owner = 0;
  };
  std::map<uid_t, Range> ranges_;  // by their first uid
};

}  // namespace gpuyard::processes
