#include "io/notify/notification.h"

#include <gmock/gmock.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "io/notify/notification_for_tests.h"

namespace gpuyard::notify {
namespace {

TEST(Notification, IsTheSameAfterItWasKeptAsJson) {
  for (const bool about_the_node : {false, true}) {
    Notification notice = hot_gpu();
    notice.ended_at = notice.started_at + std::chrono::milliseconds(12'345);
    if (about_the_node) notice.gpu = std::nullopt;
    const auto read = json::from_json<Notification>(json::to_json(notice));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, notice);
  }
}

TEST(Notification, HasTimesThatPeopleCanRead) {
  EXPECT_THAT(json::to_json(hot_gpu()),
              testing::HasSubstr(R"("started_at":"2026-01-31T12:00:00.250Z","ended_at":null)"));
}

TEST(Notification, WithATimeThatIsNoneIsRefused) {
  for (const char* time :
       {"2026-02-30T12:00:00.250Z", "", "2026-01-31T24:00:00.250Z", "2026-01--1T12:00:00.250Z",
        "2026-01-31 12:00:00.250Z", "xxxx-01-31T12:00:00.250Z"}) {
    std::string text = json::to_json(hot_gpu());
    const std::string good = "2026-01-31T12:00:00.250Z";
    text.replace(text.find(good), good.size(), time);
    EXPECT_FALSE(json::from_json<Notification>(text)) << time;
  }
}

TEST(Notification, HasTheLevelOfItsSeverity) {
  EXPECT_EQ(level_of(0), NotificationLevel::info);
  EXPECT_EQ(level_of(39), NotificationLevel::info);
  EXPECT_EQ(level_of(40), NotificationLevel::warning);
  EXPECT_EQ(level_of(60), NotificationLevel::error);
  EXPECT_EQ(level_of(79), NotificationLevel::error);
  EXPECT_EQ(level_of(80), NotificationLevel::critical);
  EXPECT_EQ(level_of(100), NotificationLevel::critical);
}

TEST(Notification, AGpuWithoutAnIndexIsNamedByItsUuid) {
  NotificationGpu gpu{3, "GPU-5f", "0000:01:00.0", "NVIDIA H100"};
  EXPECT_EQ(name_of(gpu), "3");
  gpu.index.reset();
  EXPECT_EQ(name_of(gpu), "GPU-5f");
  EXPECT_NE(json::to_json(gpu).find("\"index\":null"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::notify
