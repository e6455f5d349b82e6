// The numbers and names of users and groups. Asking the system may wait for a directory service.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

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

// Remembers the names of users for some time.
//
// Thread: worker, the same one always. May wait for the network.
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

}  // namespace gpuyard::processes
