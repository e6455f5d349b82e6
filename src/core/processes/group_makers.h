// Finds out who made a control group. The kernel lets a user make a group only in a directory of
// that user, and only root makes a directory that is root's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "processes/cgroup.h"

namespace gpuyard::processes {

// Any thread may call any member.
class GroupMakers {
 public:
  // Judges by places alone.
  GroupMakers() = default;
  // Takes the text of /proc/self/mountinfo, where the kernel's file systems of groups are.
  static GroupMakers parse(std::string_view mountinfo);
  static GroupMakers of_this_machine();

  // Returns the user who made the group. Below a user's service manager it is that user, whoever
  // owns the directory; elsewhere the owners of the directories tell. A directory may be out of
  // sight, as most are from inside a container: then only the place tells. Blocks on the kernel's
  // file system.
  std::optional<std::uint32_t> operator()(const Group&) const;

 private:
  struct Mount {
    std::string root;         // the group that is mounted
    std::string place;        // where
    std::string controllers;  // among other options; "": the unified hierarchy
  };

  std::optional<std::uint32_t> by_owner(const Group&) const;

  std::vector<Mount> mounts_;
};

}  // namespace gpuyard::processes
