#include "io/http/response_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/http/event_stream.h"

namespace gpuyard::http {
namespace {

TEST(Chunk, IsFramedOnceForTheWire) {
  const Chunk chunk(std::string(26, 'x'));
  EXPECT_EQ(chunk.framed(), "1a\r\n" + std::string(26, 'x') + "\r\n");
  EXPECT_EQ(chunk.text(), std::string(26, 'x'));
  const std::vector<Chunk> copies(2, chunk);
  EXPECT_EQ(copies[1].framed().data(), chunk.framed().data());
}

TEST(Chunk, MayHoldLineEnds) {
  EXPECT_EQ(Chunk("\r\n\r\n").text(), "\r\n\r\n");
}

// An empty chunk would end a chunked body.
TEST(Chunk, EmptyTextIsFalse) {
  EXPECT_FALSE(Chunk(""));
  EXPECT_FALSE(Chunk());
  EXPECT_EQ(Chunk().text(), "");
  EXPECT_TRUE(Chunk("x"));
}

TEST(EventChunk, HasIdNameAndData) {
  EXPECT_EQ(event_chunk("xid", R"({"a":1})", "7-1").text(),
            "id: 7-1\nevent: xid\ndata: {\"a\":1}\n\n");
}

TEST(EventChunk, LeavesTheIdAloneThatItDoesNotSet) {
  EXPECT_EQ(event_chunk("snapshot", "{}").text(), "event: snapshot\ndata: {}\n\n");
}

TEST(EventChunk, KeepsEveryKindOfLineBreakInItsData) {
  EXPECT_EQ(event_chunk("", "a\nb\r\nc\rd\n").text(),
            "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

}  // namespace

namespace {

class ChannelTest : public testing::Test {
 protected:
  void put(std::size_t channel, const std::string& text) {
    channels_[channel]->publish([this, text](std::uint64_t skipped) {
      ++rendered_;
      return Chunk(text + "-" + std::to_string(skipped));
    });
  }
  std::string next(ChannelStream& stream) { return std::string(stream.next().text()); }

  std::vector<std::shared_ptr<Channel>> channels_{std::make_shared<Channel>(),
                                                  std::make_shared<Channel>()};
  int rendered_ = 0;
};

TEST_F(ChannelTest, StreamReadsNewestOfEachChannelInTurn) {
  ChannelStream stream(channels_, true);
  EXPECT_EQ(next(stream), "");
  put(0, "a");
  put(1, "b");
  put(0, "c");
  EXPECT_EQ(next(stream), "c-1") << "one was skipped";
  put(0, "d");
  EXPECT_EQ(next(stream), "b-0") << "the other's turn";
  EXPECT_EQ(next(stream), "d-0");
  EXPECT_EQ(next(stream), "");
}

TEST_F(ChannelTest, PieceIsRenderedOnceForAllSubscribers) {
  std::vector<std::unique_ptr<ChannelStream>> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(std::make_unique<ChannelStream>(channels_, true));
  put(0, "a");
  EXPECT_EQ(rendered_, 0) << "nobody asked yet";
  for (const auto& stream : streams) EXPECT_EQ(next(*stream), "a-0");
  EXPECT_EQ(rendered_, 1);
}

TEST_F(ChannelTest, LateSubscriberGetsLatestPieceAtOnce) {
  put(0, "a");
  put(0, "b");
  ChannelStream stream(channels_, true);
  EXPECT_EQ(next(stream), "b-0");
}

TEST_F(ChannelTest, DrainedSubscriberIsNotifiedOnceUntilNextRead) {
  ChannelStream stream(channels_, true);
  int notifications = 0;
  stream.set_on_more([&] { ++notifications; });
  EXPECT_EQ(next(stream), "");
  put(0, "a");
  put(0, "b");
  EXPECT_EQ(notifications, 1);
  EXPECT_EQ(next(stream), "b-1");
  EXPECT_EQ(next(stream), "");
  put(0, "c");
  EXPECT_EQ(notifications, 2);
}

TEST_F(ChannelTest, DestroyedSubscriberIsNotNotified) {
  {
    ChannelStream stream(channels_, true);
    EXPECT_EQ(next(stream), "");
  }
  put(0, "a");
}

}  // namespace
}  // namespace gpuyard::http
