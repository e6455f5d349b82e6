#include "io/http/event_parser.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/http/event_stream.h"

namespace gpuyard::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<ServerEvent> parse(std::string_view text, std::size_t piece = 1'000'000) {
  EventParser parser;
  std::vector<ServerEvent> events;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    parser.feed(text.substr(0, piece));
    while (auto event = parser.take()) events.push_back(*std::move(event));
  }
  return events;
}

TEST(EventParser, ReadsNameIdAndData) {
  EXPECT_THAT(parse("id: 7-1\nevent: xid\ndata: {}\n\n"),
              ElementsAre(ServerEvent{"xid", "7-1", "{}"}));
}

TEST(EventParser, WrittenEventRoundTrips) {
  const Chunk chunk = event_chunk("a", "line 1\nline 2\n", "e-1");
  EXPECT_THAT(parse(chunk.text()), ElementsAre(ServerEvent{"a", "e-1", "line 1\nline 2\n"}));
}

TEST(EventParser, ReadsItHoweverItIsCut) {
  const std::string_view text =
      "retry: 1\r\n\r\n:\n\nid:1\rdata:a\rdata: b\r\revent: n\r\ndata\r\n\r\n";
  for (std::size_t piece = 1; piece < text.size(); ++piece) {
    EXPECT_THAT(parse(text, piece),
                ElementsAre(ServerEvent{"message", "1", "a\nb"}, ServerEvent{"n", "1", ""}))
        << piece;
  }
}

TEST(EventParser, KeepsTheIdOfAnEarlierEvent) {
  EXPECT_THAT(parse("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n"),
              ElementsAre(ServerEvent{"message", "1", "a"}, ServerEvent{"message", "1", "b"},
                          ServerEvent{"message", "", "c"}));
}

TEST(EventParser, EventWithoutDataIsSkipped) {
  EXPECT_THAT(parse(":\n\nevent: x\n\nid: 3\n\nnonsense: y\n\n"), IsEmpty());
  EXPECT_THAT(parse("event: x\n\ndata: a\n\n"), ElementsAre(ServerEvent{"message", "", "a"}));
}

TEST(EventParser, LeavesOutAnEventThatBreaksOff) {
  EXPECT_THAT(parse("data: a\n"), IsEmpty());
}

TEST(EventParser, SkipsAByteOrderMarkInFrontOfAll) {
  EXPECT_THAT(parse("\xEF\xBB\xBF"
                    "data: a\n\n"),
              ElementsAre(ServerEvent{"message", "", "a"}));
}

TEST(EventParser, HoldsNoMoreThanItsLimit) {
  EventParser one_line(10);
  one_line.feed("data: 4567");
  EXPECT_FALSE(one_line.has_overflowed());
  one_line.feed("8");
  EXPECT_TRUE(one_line.has_overflowed());
  EventParser many_lines(10);
  for (int i = 0; i < 4; ++i) many_lines.feed("data: x\n");
  EXPECT_TRUE(many_lines.has_overflowed());
  many_lines.feed("\n");
  EXPECT_FALSE(many_lines.take());
}

}  // namespace
}  // namespace gpuyard::http
