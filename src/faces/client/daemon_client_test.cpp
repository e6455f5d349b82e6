#include "client/daemon_client.h"

#include <gtest/gtest.h>

namespace gpuyard::client {
namespace {

TEST(InWords, PlaceInBodyIsItsField) {
  EXPECT_EQ(in_words("body: /among: GPU index 99 is out of range"),
            "among: GPU index 99 is out of range");
  EXPECT_EQ(in_words("/gpus/0: names a GPU once more"), "gpus: names a GPU once more");
  EXPECT_EQ(in_words("body: /among/0: must be a text; /among/1: must be a text"),
            "among: must be a text; among: must be a text");
  EXPECT_EQ(in_words("body: /wait_s: must be a number"), "wait_s: must be a number");
}

TEST(InWords, OtherMessageStaysAsItIs) {
  for (const char* message :
       {"", "no daemon runs here", "/run/gpuyard/gpuyard.sock: Permission denied",
        "/tmp: No space left on device", "body: /: must be an object",
        "parameter since: must be a number", "opening /a/b: No such file or directory"}) {
    EXPECT_EQ(in_words(message), message);
  }
}

TEST(ErrorOf, NamesTheFieldAndNotItsPlace) {
  const Error error = error_of(
      {400,
       {},
       R"({"error":{"code":"invalid","message":"body: /among: GPU index 99 is out of range"}})"});
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.message, "among: GPU index 99 is out of range");
}

}  // namespace
}  // namespace gpuyard::client
