#include "core/processes/group_makers.h"

#include <sys/stat.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace gpuyard::processes {
namespace {

constexpr const char* kMountInfoPath = "/proc/self/mountinfo";
constexpr std::size_t kMaxMountInfoBytes = std::size_t{4} << 20U;

bool contains_part(std::string_view whole, char separator, std::string_view part) {
  while (!whole.empty()) {
    if (take_until(separator, whole) == part) return true;
  }
  return false;
}

std::optional<std::uint32_t> owner_of_directory(const std::string& directory) {
  struct stat status{};
  if (::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  return status.st_uid;
}

}  // namespace

// "31 24 0:26 ROOT MOUNT_POINT rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate". The kernel
// escapes blanks and backslashes; mount points with these are not supported.
GroupMakers GroupMakers::parse(std::string_view mountinfo) {
  GroupMakers makers;
  while (!mountinfo.empty()) {
    std::string_view line = take_until('\n', mountinfo);
    const std::size_t behind = line.find(" - ");
    if (behind == line.npos || line.find('\\') != line.npos) continue;
    std::string_view kind = line.substr(behind + 3);
    const std::string_view type = take_until(' ', kind);
    if (type != "cgroup2" && type != "cgroup") continue;
    take_until(' ', kind);  // the mount source
    for (int i = 0; i < 3; ++i) take_until(' ', line);
    const std::string_view root = take_until(' ', line);
    const std::string_view mount_point = take_until(' ', line);
    makers.mounts_.push_back({root == "/" ? "" : std::string(root), std::string(mount_point),
                              type == "cgroup2" ? "" : std::string(kind)});
  }
  return makers;
}

GroupMakers GroupMakers::of_this_machine() {
  const auto text = read_file(kMountInfoPath, kMaxMountInfoBytes);
  if (text) return parse(*text);
  log::debug("the makers of control groups are inferred from their paths: {}", text.error().text());
  return {};
}

// Root may delegate a whole service to a user, and a runtime delegates a container's own group to
// the users inside. The parent directory of both is root's, and only root can create groups there.
std::optional<std::uint32_t> GroupMakers::maker_by_owner(const Group& group) const {
  std::string_view controllers = group.hierarchy;
  const std::string_view first = take_until(',', controllers);
  for (const Mount& mount : mounts_) {
    if (mount.controllers.empty() != first.empty()) continue;
    if (!first.empty() && !contains_part(mount.controllers, ',', first)) continue;
    std::string_view below = group.path;
    if (!below.starts_with(mount.root)) continue;
    below.remove_prefix(mount.root.size());
    if (below.empty() || below.front() != '/' || contains_part(below, '/', "..")) continue;
    const std::string directory = mount.mount_point + std::string(below);
    const auto owner = owner_of_directory(directory);
    const auto above = owner_of_directory(parent_directory(directory));
    if (!owner || !above) continue;
    return *owner == kRootUid ? kRootUid : *above;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> GroupMakers::operator()(const Group& group) const {
  const auto by_path = maker_by_path(group);
  if (by_path && *by_path != kRootUid) return by_path;
  const auto owner = maker_by_owner(group);
  return owner ? owner : by_path;
}

}  // namespace gpuyard::processes
