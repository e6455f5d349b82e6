// The names of users, remembered for a while. Asking the system may wait for a directory service.
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

// Asks the system: Errc::not_found for a number that is nobody's. May wait for the network.
Result<std::string> look_up_user(uid_t);

// The number of a user. May wait for the network.
Result<uid_t> look_up_uid(const std::string& name);

// The number of a group. May wait for the network.
Result<gid_t> look_up_group(const std::string& name);

// On one thread.
class UserNames {
 public:
  using LookUp = std::function<Result<std::string>(uid_t)>;

  static constexpr std::size_t kMost = 1024;
  static constexpr Duration kKept = std::chrono::minutes(10);
  static constexpr Duration kFailureKept = std::chrono::minutes(1);

  explicit UserNames(LookUp look_up = look_up_user) : look_up_(std::move(look_up)) {}

  Result<std::string> of(uid_t, TimePoint now);

 private:
  struct Known {
    Result<std::string> name;
    TimePoint until;
  };

  LookUp look_up_;
  std::map<uid_t, Known> known_;
};

// Who is behind the uids that a user may take beside his own, in containers without root for
// example. The kernel calls each of them a user; shares are counted for the one who has them all.

class SubordinateUids {
 public:
  using LookUp = std::function<Result<uid_t>(const std::string& name)>;

  // Nobody has any.
  SubordinateUids() = default;
  // Lines like those of /etc/subuid, `NAME-OR-UID:FIRST:COUNT` (subuid(5)). What is none is left
  // out. Of ranges that overlap the one that begins last counts.
  static SubordinateUids parse(std::string_view text, const LookUp& uid_of);
  // As this machine's file says, if it has one. May wait for the network.
  static SubordinateUids of_this_machine();

  // Whose uid it is: itself, or the user in whose range it lies. A range of root's, or of somebody
  // whose name is not known, is a person of its own: who comes from there has nothing of root's.
  uid_t person(uid_t) const;

 private:
  struct Range {
    uid_t last = 0;
    uid_t owner = 0;
  };
  std::map<uid_t, Range> ranges_;  // by their first
};

}  // namespace gpuyard::processes
