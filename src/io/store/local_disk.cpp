#include "io/store/local_disk.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard::store {
namespace {

using FileSystemKind = std::pair<std::uint32_t, std::string_view>;

// From linux/magic.h where it is in there, else from the file system's own source. File systems
// that several machines mount from one shared disk are among them.
constexpr std::array kNetworkFileSystems = {
    FileSystemKind{0x6969, "NFS"},
    FileSystemKind{0x517b, "SMB"},
    FileSystemKind{0xfe534d42, "SMB"},
    FileSystemKind{0xff534d42, "CIFS"},
    FileSystemKind{0x5346414f, "AFS"},
    FileSystemKind{0x6b414653, "AFS"},
    FileSystemKind{0x73757245, "Coda"},
    FileSystemKind{0x564c, "NCP"},
    FileSystemKind{0x01021997, "9p"},
    FileSystemKind{0x00c36400, "CephFS"},
    FileSystemKind{0x0bd00bd0, "Lustre"},
    FileSystemKind{0x47504653, "GPFS"},
    FileSystemKind{0x19830326, "BeeGFS"},
    FileSystemKind{0xaad7aaea, "PanFS"},
    FileSystemKind{0x20030528, "OrangeFS"},
    FileSystemKind{0x01161970, "GFS2"},
    FileSystemKind{0x7461636f, "OCFS2"},
    FileSystemKind{0xbeefdead, "StorNext"},
    FileSystemKind{0x786f4256, "VirtualBox shared folder"},
    FileSystemKind{0xbacbacbc, "VMware shared folder"},
};

constexpr std::uint32_t kFuseMagic = 0x65735546;
// FUSE file systems that are served from elsewhere; the others (overlays, encryption, foreign
// disks) are as good as what they lie on.
constexpr std::array<std::string_view, 17> kNetworkFuseTypes = {
    "sshfs",  "glusterfs", "ceph",      "ceph-fuse", "s3fs",     "gcsfuse",
    "rclone", "juicefs",   "mfs",       "goofys",    "blobfuse", "blobfuse2",
    "davfs2", "beegfs",    "curlftpfs", "mount-s3",  "smbnetfs"};

constexpr std::size_t kMaxMountInfoBytes = 4U << 20U;

}  // namespace

std::optional<std::string_view> network_file_system(std::uint32_t magic, std::string_view type) {
  for (const auto& [number, name] : kNetworkFileSystems) {
    if (number == magic) return name;
  }
  constexpr std::string_view kPrefix = "fuse.";
  if (magic != kFuseMagic || !type.starts_with(kPrefix)) return std::nullopt;
  for (const std::string_view name : kNetworkFuseTypes) {
    if (type.substr(kPrefix.size()) == name) return name;
  }
  return std::nullopt;
}

// "36 35 98:0 /root /mount rw,noatime shared:1 - ext3 /dev/root rw": the third field, and the first
// behind the lone hyphen.
std::string_view mount_type(std::string_view mountinfo, unsigned major, unsigned minor) {
  const std::string device = fmt::format(" {}:{} ", major, minor);
  while (!mountinfo.empty()) {
    const std::string_view line = take_until('\n', mountinfo);
    const std::size_t second = line.find(' ', line.find(' ') + 1);
    if (second == std::string_view::npos || !line.substr(second).starts_with(device)) continue;
    constexpr std::string_view kHyphen = " - ";
    const std::size_t hyphen = line.find(kHyphen);
    if (hyphen == std::string_view::npos) continue;
    const std::string_view rest = line.substr(hyphen + kHyphen.size());
    return rest.substr(0, rest.find(' '));
  }
  return {};
}

Result<void> check_local(const std::string& directory) {
  struct statfs system{};
  struct stat facts{};
  if (::statfs(directory.c_str(), &system) != 0) return {};
  const auto magic = static_cast<std::uint32_t>(system.f_type);
  std::string mounts;
  std::string_view type;
  if (magic == kFuseMagic && ::stat(directory.c_str(), &facts) == 0) {
    auto read = read_file("/proc/self/mountinfo", kMaxMountInfoBytes);
    if (read) mounts = *std::move(read);
    type = mount_type(mounts, major(facts.st_dev), minor(facts.st_dev));
  }
  const auto network = network_file_system(magic, type);
  if (!network) return {};
  return Error{
      Errc::denied,
      fmt::format(
          "{} is on a network file system ({}), whose locks and syncs are not reliable: a GPU "
          "could be leased twice. Use a directory on a local disk: gpuyard serve --state DIR",
          directory, *network)};
}

}  // namespace gpuyard::store
