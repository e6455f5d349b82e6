// Finds the user who created a control group. The kernel lets a user create a group only in a
// directory of that user, and only root can create a directory that root owns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/processes/cgroup.h"

namespace gpuyard::processes {

// Thread: any.
class GroupMakers {
 public:
  // Decides by paths alone.
  GroupMakers() = default;
  // Finds the mounted cgroup file systems in the text of /proc/self/mountinfo.
  static GroupMakers parse(std::string_view mountinfo);
  static GroupMakers of_this_machine();

  // Returns the user who created the group. Below a user's service manager it is that user,
  // regardless of the directory's owner; elsewhere the owners of the directories decide. If a
  // directory is not visible, as most are from inside a container, the path alone decides. Blocks
  // on cgroupfs.
  std::optional<std::uint32_t> operator()(const Group&) const;

 private:
  struct Mount {
    std::string root;         // the mounted group
    std::string mount_point;  // the mount point
    std::string controllers;  // among other options; "": the unified hierarchy
  };

  std::optional<std::uint32_t> maker_by_owner(const Group&) const;

  std::vector<Mount> mounts_;
};

}  // namespace gpuyard::processes
