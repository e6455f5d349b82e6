// Who is behind the uids that a user may take beside his own, in containers without root for
// example. The kernel calls each of them a user; shares are counted for the one who has them all.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::processes {

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
