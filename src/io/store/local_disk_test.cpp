#include "io/store/local_disk.h"

#include <linux/magic.h>

#include <cstdint>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::store {
namespace {

constexpr std::uint32_t kXfs = 0x58465342;
constexpr std::uint32_t kZfs = 0x2fc12fc1;

TEST(LocalDisk, NetworkFileSystemIsDetectedByMagic) {
  for (const std::uint32_t magic : std::initializer_list<std::uint32_t>{
           NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, 0xff534d42, 0xfe534d42, V9FS_MAGIC, CODA_SUPER_MAGIC,
           AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, OCFS2_SUPER_MAGIC, 0x0bd00bd0, 0x47504653}) {
    EXPECT_TRUE(network_file_system(magic, "")) << std::hex << magic;
  }
  EXPECT_EQ(network_file_system(NFS_SUPER_MAGIC, "nfs4"), "NFS");
}

TEST(LocalDisk, TheFileSystemsOfOneMachineAreLocal) {
  for (const std::uint32_t magic : std::initializer_list<std::uint32_t>{
           OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC, EXT4_SUPER_MAGIC, kXfs,
           BTRFS_SUPER_MAGIC, kZfs, F2FS_SUPER_MAGIC, MSDOS_SUPER_MAGIC}) {
    EXPECT_FALSE(network_file_system(magic, "")) << std::hex << magic;
  }
}

TEST(LocalDisk, FuseTypeDecidesWhetherDiskIsLocal) {
  EXPECT_EQ(network_file_system(FUSE_SUPER_MAGIC, "fuse.sshfs"), "sshfs");
  EXPECT_EQ(network_file_system(FUSE_SUPER_MAGIC, "fuse.glusterfs"), "glusterfs");
  for (const char* const type :
       {"", "fuse", "fuseblk", "fuse.fuse-overlayfs", "virtiofs", "sshfs"}) {
    EXPECT_FALSE(network_file_system(FUSE_SUPER_MAGIC, type)) << type;
  }
  EXPECT_FALSE(network_file_system(EXT4_SUPER_MAGIC, "fuse.sshfs"));
}

TEST(LocalDisk, TheMountOfADeviceIsFound) {
  constexpr std::string_view kMounts =
      "22 1 0:21 / /proc rw - proc proc rw\n"
      "36 35 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 36 0:52 / /home/me rw,nosuid shared:9 master:2 - fuse.sshfs me@there:/ rw,user_id=0\n"
      "41 36 0:5\n";
  EXPECT_EQ(mount_type(kMounts, 8, 1), "ext4");
  EXPECT_EQ(mount_type(kMounts, 0, 52), "fuse.sshfs");
  EXPECT_EQ(mount_type(kMounts, 0, 5), "");
  EXPECT_EQ(mount_type(kMounts, 36, 35), "");
  EXPECT_EQ(mount_type("", 8, 1), "");
  EXPECT_EQ(mount_type("no mount\n\n", 8, 1), "");
}

// A file system that cannot be determined counts as local.
TEST(LocalDisk, LocalOrMissingDirectoryIsAccepted) {
  const ScratchDirectory directory;
  EXPECT_TRUE(check_local(directory.path()));
  EXPECT_TRUE(check_local("/proc"));
  EXPECT_TRUE(check_local(directory.path() + "/none"));
}

}  // namespace

}  // namespace gpuyard::store
