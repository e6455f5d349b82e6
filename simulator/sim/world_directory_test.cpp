// Whose library a world's own one may be.
#include "sim/world_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::sim {
namespace {

// A daemon of real GPUs that anybody could make call itself simulated is worth nothing.
TEST(WorldDirectory, ItsLibraryIsBelievedIfNobodyElseCouldHavePutItThere) {
  const ScratchDirectory world;
  const std::string own = world.write("libnvidia-ml.so.1", "a library", 0644);
  EXPECT_EQ(nvml_path_of(world.path()), own);
  ::chmod(world.path().c_str(), 0777);
  EXPECT_NE(nvml_path_of(world.path()), own) << "others may write its directory";
  ::chmod(world.path().c_str(), 0755);
  ::chmod(own.c_str(), 0664);
  EXPECT_NE(nvml_path_of(world.path()), own) << "others may write it";
  ::unlink(own.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", own.c_str()), 0);
  EXPECT_NE(nvml_path_of(world.path()), own) << "a link leads anywhere";
}

}  // namespace
}  // namespace gpuyard::sim
