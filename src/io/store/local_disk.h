// Whether a directory is on a disk of this machine. On a network file system other machines write
// to the same file, and locks and syncs do not do what they promise: a grant could be lost or given
// twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::store {

// The name of a network file system, for people; nothing for a local one. `magic` is statfs's
// f_type; `type` is what the mount says, and decides where many share one magic (FUSE).
std::optional<std::string_view> network_file_system(std::uint32_t magic, std::string_view type);

// The type of the mount of a device, "fuse.sshfs", in the text of /proc/self/mountinfo; "" if there
// is none.
std::string_view mount_type(std::string_view mountinfo, unsigned major, unsigned minor);

// Errc::denied if the directory is on a network file system; the message says what to do. It is no
// error if that cannot be found out.
Result<void> check_local(const std::string& directory);

}  // namespace gpuyard::store
