#include "io/kubelet/unary_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "io/kubelet/server_frames_for_tests.h"

namespace gpuyard::kubelet {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Runs a call against a server that sends `bytes`, `at_a_time`, then closes.
Result<GrpcReply> reply_to(std::string_view bytes, std::size_t at_a_time = std::string::npos) {
  UnaryCall call("/v1.PodResourcesLister/List");
  for (;;) {
    (void)call.take_output();
    if (call.is_done()) return std::move(call).take_result();
    if (bytes.empty()) {
      call.receive_end();
    } else {
      // A copy of the exact size: AddressSanitizer sees a read behind it.
      call.receive(std::string(bytes.substr(0, at_a_time)));
      bytes.remove_prefix(std::min(at_a_time, bytes.size()));
    }
    if (call.is_done()) return std::move(call).take_result();
  }
}

Errc code_of(std::string_view bytes) {
  const auto reply = reply_to(bytes);
  return reply ? Errc::conflict : reply.error().code;  // conflict: no call ends so
}

std::string cause_of(std::string_view bytes) {
  const auto reply = reply_to(bytes);
  return reply ? "a reply" : reply.error().cause;
}

TEST(UnaryCall, RequestIsAnEmptyMessage) {
  UnaryCall call("/v1.PodResourcesLister/List");
  const std::string output = call.take_output();
  EXPECT_THAT(output, StartsWith("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  EXPECT_THAT(output, HasSubstr(frame(kDataFrame, kEndStream, 1, std::string(5, '\0'))));
  EXPECT_EQ(call.take_output(), "");
  EXPECT_FALSE(call.is_done());
}

TEST(UnaryCall, MessageIsReturned) {
  const auto reply = reply_to(response_with("abc"));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->status, 0);
  EXPECT_EQ(reply->message, "abc");
}

TEST(UnaryCall, EmptyMessageIsReturned) {
  const auto reply = reply_to(response_with(""));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->message, "");
}

TEST(UnaryCall, MessageInManyFramesIsReturned) {
  std::string bytes = settings_frame() + response_headers();
  for (const char byte : grpc_message("abc")) {
    bytes += data_frame(std::string(1, byte)) + data_frame("");
  }
  bytes += trailers({{"grpc-status", "0"}});
  for (const std::size_t at_a_time : {std::size_t{1}, std::size_t{7}, std::string::npos}) {
    const auto reply = reply_to(bytes, at_a_time);
    ASSERT_TRUE(reply) << reply.error().text();
    EXPECT_EQ(reply->message, "abc");
  }
}

// More than any window: the call has to tell the server that it may go on.
TEST(UnaryCall, MessageLargerThanTheWindowIsReturned) {
  const std::string message(3'000'000, 'x');
  std::string bytes = settings_frame() + response_headers();
  const std::string whole = grpc_message(message);
  for (std::size_t i = 0; i < whole.size(); i += 16'384)
    bytes += data_frame(whole.substr(i, 16'384));
  const auto reply = reply_to(bytes + trailers({{"grpc-status", "0"}}), 65'536);
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->message, message);
}

TEST(UnaryCall, RefusalWithoutAMessageIsReturned) {
  const auto reply = reply_to(
      settings_frame() + headers_frame(kEndStream, {{":status", "200"},
                                                    {"content-type", "application/grpc"},
                                                    {"grpc-status", "12"},
                                                    {"grpc-message", "no %22List%22%0A 100%"}}));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->status, 12);
  EXPECT_EQ(reply->status_message, "no \"List\"\n 100%");
}

TEST(UnaryCall, RefusalBehindAMessageIsReturned) {
  const auto reply =
      reply_to(settings_frame() + response_headers() + data_frame(grpc_message("a")) +
               trailers({{"grpc-status", "13"}, {"grpc-message", "broken"}}));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->status, 13);
  EXPECT_EQ(reply->message, "");
}

TEST(UnaryCall, MissingStatusIsMalformed) {
  const std::string begin = settings_frame() + response_headers();
  EXPECT_EQ(cause_of(begin + data_frame(grpc_message("abc"), kEndStream)), "it has no gRPC status");
  EXPECT_EQ(cause_of(begin + data_frame(grpc_message("abc")) + trailers({{"x", "y"}})),
            "it has no gRPC status");
  EXPECT_EQ(code_of(begin + data_frame(grpc_message("abc"), kEndStream)), Errc::invalid);
}

// A status counts only at the end.
TEST(UnaryCall, StatusBeforeTheMessageIsMalformed) {
  EXPECT_EQ(cause_of(settings_frame() +
                     headers_frame(0, {{":status", "200"},
                                       {"content-type", "application/grpc"},
                                       {"grpc-status", "0"}}) +
                     data_frame(grpc_message("abc"), kEndStream)),
            "it has no gRPC status");
}

TEST(UnaryCall, StatusThatIsNoNumberIsMalformed) {
  for (const char* status : {"", "-1", "0x", "99999"}) {
    EXPECT_EQ(cause_of(settings_frame() + response_headers() + data_frame(grpc_message("abc")) +
                       trailers({{"grpc-status", status}})),
              "its gRPC status is not a number")
        << status;
  }
}

TEST(UnaryCall, IncompleteMessageIsMalformed) {
  const std::string begin = settings_frame() + response_headers();
  const std::string end = trailers({{"grpc-status", "0"}});
  EXPECT_EQ(cause_of(begin + end), "its message is incomplete");
  EXPECT_EQ(cause_of(begin + data_frame(std::string(3, '\0')) + end), "its message is incomplete");
  const std::string whole = grpc_message("abc");
  EXPECT_EQ(cause_of(begin + data_frame(whole.substr(0, 7)) + end), "its message is incomplete");
}

TEST(UnaryCall, SecondMessageIsMalformed) {
  EXPECT_EQ(cause_of(settings_frame() + response_headers() +
                     data_frame(grpc_message("abc") + grpc_message("abc"))),
            "it is longer than its message");
}

TEST(UnaryCall, CompressedMessageIsMalformed) {
  EXPECT_EQ(cause_of(settings_frame() + response_headers() +
                     data_frame("\1" + grpc_message("abc").substr(1))),
            "it is compressed, which was not asked for");
}

// Before its bytes come.
TEST(UnaryCall, HundredMegabytesAreRefusedAtOnce) {
  const auto reply =
      reply_to(settings_frame() + response_headers() +
               data_frame(std::string(1, '\0') + big_endian(100'000'000, 4) + "abc"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::internal);
  EXPECT_EQ(reply.error().message,
            "the response is too large: 100000000 bytes; the limit is 16777216 bytes");
}

TEST(UnaryCall, OtherContentIsMalformed) {
  EXPECT_EQ(cause_of(settings_frame() +
                     headers_frame(0, {{":status", "200"}, {"content-type", "text/html"}}) +
                     data_frame("<html>")),
            "content type \"text/html\"");
  EXPECT_EQ(cause_of(settings_frame() + headers_frame(kEndStream, {{":status", "404"}})),
            "HTTP status 404");
}

TEST(UnaryCall, InformationalHeadersAreSkipped) {
  const auto reply = reply_to(settings_frame() + headers_frame(0, {{":status", "103"}}) +
                              response_with("abc").substr(settings_frame().size()));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->message, "abc");
}

TEST(UnaryCall, ResetIsUnavailable) {
  constexpr std::uint32_t kRefusedStream = 7;
  EXPECT_EQ(code_of(settings_frame() + reset_frame(kRefusedStream)), Errc::unavailable);
  EXPECT_EQ(code_of(settings_frame() + response_headers() + data_frame(grpc_message("abc")) +
                    reset_frame(kRefusedStream)),
            Errc::unavailable);
}

TEST(UnaryCall, ResetWithoutAnErrorIsMalformed) {
  EXPECT_EQ(cause_of(settings_frame() + response_headers() + reset_frame(0)),
            "it has no gRPC status");
}

TEST(UnaryCall, GoAwayBeforeTheCallIsUnavailable) {
  EXPECT_EQ(code_of(settings_frame() + go_away_frame(0, 0)), Errc::unavailable);
  constexpr std::uint32_t kEnhanceYourCalm = 11;
  EXPECT_EQ(code_of(settings_frame() + go_away_frame(0, kEnhanceYourCalm)), Errc::unavailable);
}

// A server that shuts down finishes what it has begun.
TEST(UnaryCall, GoAwayBehindTheCallLetsItFinish) {
  const auto reply = reply_to(settings_frame() + go_away_frame(1, 0) +
                              response_with("abc").substr(settings_frame().size()));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->message, "abc");
}

TEST(UnaryCall, GarbageIsMalformed) {
  EXPECT_EQ(code_of("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request"),
            Errc::invalid);
  EXPECT_EQ(code_of(std::string(100, '\xFF')), Errc::invalid);
  EXPECT_EQ(code_of(std::string(100, '\0')), Errc::invalid);
  EXPECT_EQ(code_of(response_headers()), Errc::invalid);  // without settings
  EXPECT_EQ(code_of(settings_frame() + frame(kHeadersFrame, kEndHeaders, 1, "\xFF\xFF")),
            Errc::invalid);
}

// Allowed until the server has seen our settings.
TEST(UnaryCall, PushedStreamIsIgnored) {
  constexpr std::uint8_t kPushPromiseFrame = 5;
  const std::string push =
      frame(kPushPromiseFrame, kEndHeaders, 1, big_endian(2, 4) + "\x82\x84\x86\x41\x01x") +
      frame(kHeadersFrame, kEndHeaders, 2, "\x8D") + frame(kDataFrame, kEndStream, 2, "other");
  const auto reply =
      reply_to(settings_frame() + push + response_with("abc").substr(settings_frame().size()));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->message, "abc");
}

TEST(UnaryCall, FloodOfPingsEndsTheCall) {
  UnaryCall call("/v1.PodResourcesLister/List");
  (void)call.take_output();
  std::string pings = settings_frame();
  for (int i = 0; i < 5000; ++i) pings += frame(kPingFrame, 0, 0, "12345678");
  call.receive(pings);
  EXPECT_TRUE(call.is_done());
}

TEST(UnaryCall, EveryTruncationIsUnavailable) {
  const std::string bytes = response_with("abc");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto reply = reply_to(bytes.substr(0, length));
    ASSERT_FALSE(reply) << length;
    EXPECT_EQ(reply.error().code, Errc::unavailable) << length;
  }
}

TEST(GrpcStatusText, UnknownNumberIsShown) {
  EXPECT_EQ(grpc_status_text(12), "UNIMPLEMENTED (12)");
  EXPECT_EQ(grpc_status_text(99), "status 99");
}

}  // namespace
}  // namespace gpuyard::kubelet
