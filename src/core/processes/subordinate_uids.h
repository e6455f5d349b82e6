// The UIDs that users may take beside their own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::processes {

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
