#include "base/unique_fd.h"

#include <unistd.h>

#include <utility>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(UniqueFd, MoveAssignmentClosesPreviousDescriptor) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  writing = UniqueFd();
  char byte = 0;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0);  // end of file: the other end is closed
}

TEST(UniqueFd, MovesItsDescriptorAndReleasesIt) {
  UniqueFd first(::dup(STDERR_FILENO));
  ASSERT_TRUE(first);
  UniqueFd second(std::move(first));
  const int fd = second.release();
  EXPECT_FALSE(second);
  EXPECT_EQ(::close(fd), 0);  // still open: nobody closed it before
}

}  // namespace

}  // namespace gpuyard
