#include "http/feed.h"

#include <vector>

#include <gtest/gtest.h>

#include "http/event_stream.h"

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

TEST(Chunk, OfNothingIsNothingForItWouldEndTheBody) {
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

TEST(EventStream, IsNotKeptByCachesOrHeldBackByProxies) {
  const Response response = event_stream(nullptr);
  EXPECT_EQ(response.content_type, "text/event-stream");
  EXPECT_EQ(find_header(response.headers, "cache-control"), "no-store");
  EXPECT_EQ(find_header(response.headers, "x-accel-buffering"), "no");
}

}  // namespace
}  // namespace gpuyard::http
