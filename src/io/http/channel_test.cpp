#include "http/channel.h"

#include <string>

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

class ChannelTest : public testing::Test {
 protected:
  void put(std::size_t channel, const std::string& text) {
    channels_[channel]->put([this, text](std::uint64_t skipped) {
      ++rendered_;
      return Chunk(text + "-" + std::to_string(skipped));
    });
  }
  std::string next(ChannelsFeed& feed) { return std::string(feed.next().text()); }

  std::vector<std::shared_ptr<Channel>> channels_{std::make_shared<Channel>(),
                                                  std::make_shared<Channel>()};
  int rendered_ = 0;
};

TEST_F(ChannelTest, EachListenerHearsTheNewestOfAllInTurn) {
  ChannelsFeed feed(channels_, true);
  EXPECT_EQ(next(feed), "");
  put(0, "a");
  put(1, "b");
  put(0, "c");
  EXPECT_EQ(next(feed), "c-1") << "one was skipped";
  put(0, "d");
  EXPECT_EQ(next(feed), "b-0") << "the other's turn";
  EXPECT_EQ(next(feed), "d-0");
  EXPECT_EQ(next(feed), "");
}

TEST_F(ChannelTest, APieceIsRenderedOnceForAllWhoHearIt) {
  std::vector<std::unique_ptr<ChannelsFeed>> feeds;
  for (int i = 0; i < 100; ++i) feeds.push_back(std::make_unique<ChannelsFeed>(channels_, true));
  put(0, "a");
  EXPECT_EQ(rendered_, 0) << "nobody asked yet";
  for (const auto& feed : feeds) EXPECT_EQ(next(*feed), "a-0");
  EXPECT_EQ(rendered_, 1);
}

TEST_F(ChannelTest, WhoComesLaterHearsAtOnceWhatIsThere) {
  put(0, "a");
  put(0, "b");
  ChannelsFeed feed(channels_, true);
  EXPECT_EQ(next(feed), "b-0");
}

TEST_F(ChannelTest, WhoTookAllIsToldOfTheNextAndNotAgain) {
  ChannelsFeed feed(channels_, true);
  int told = 0;
  feed.on_more([&] { ++told; });
  EXPECT_EQ(next(feed), "");
  put(0, "a");
  put(0, "b");
  EXPECT_EQ(told, 1);
  EXPECT_EQ(next(feed), "b-1");
  EXPECT_EQ(next(feed), "");
  put(0, "c");
  EXPECT_EQ(told, 2);
}

TEST_F(ChannelTest, WhoHasGoneIsNotTold) {
  {
    ChannelsFeed feed(channels_, true);
    EXPECT_EQ(next(feed), "");
  }
  put(0, "a");
}

}  // namespace
}  // namespace gpuyard::http
