#include "io/notify/requests.h"

#include <gmock/gmock.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "io/notify/notification_for_tests.h"

namespace gpuyard::notify {
namespace {

using boost::json::value;

SinkConfig sink_of(SinkKind kind, const std::string& url) {
  SinkConfig sink;
  sink.name = "a";
  sink.kind = kind;
  sink.url = *parse_url(url);
  return sink;
}

value parsed(const http::ClientRequest& request) {
  const auto document = json::parse(request.body);
  EXPECT_TRUE(document) << request.body;
  return document ? *document : value();
}

std::string text_at(const value& document, const char* pointer) {
  boost::json::error_code missing;
  const auto* found = document.find_pointer(pointer, missing);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "(no text)";
}

std::string_view header(const http::ClientRequest& request, std::string_view name) {
  return http::find_header(request.headers, name);
}

TEST(HmacSha256, IsTheHmacOfRfc4231) {
  EXPECT_EQ(hmac_sha256(Secret("Jefe"), "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Webhook, HasTheNoticeAndIsSigned) {
  auto sink = sink_of(SinkKind::webhook, "https://example.org/in?team=1");
  sink.key = Secret("k3y");
  sink.authorization = Secret("Bearer t");
  const auto request = sink_request(sink, {hot_gpu()}, kNoon);
  EXPECT_EQ(request.method, http::Method::post);
  EXPECT_EQ(request.target, "/in?team=1");
  EXPECT_EQ(
      request.body,
      R"({"schema":1,"id":"n-1","key":"hot/GPU-3","rule":"hot","status":"firing","severity":85,)"
      R"("level":"critical","message":"GPU 3 is at 91 °C, threshold 80 °C",)"
      R"("advice":"Look at its fans.","gpu":{"index":3,"uuid":"GPU-3",)"
      R"("pci_address":"00000000:3B:00.0","name":"NVIDIA H100 80GB HBM3"},"host":"node7",)"
      R"("started_at":"2026-01-31T12:00:00.250Z","ended_at":null,"simulated":false,"test":false})");
  EXPECT_EQ(header(request, "x-gpuyard-delivery"), "n-1");
  EXPECT_EQ(header(request, "x-gpuyard-timestamp"), "1769860800");
  EXPECT_EQ(header(request, "x-gpuyard-signature"),
            "sha256=" + hmac_sha256(sink.key, "1769860800." + request.body));
  EXPECT_EQ(header(request, "authorization"), "Bearer t");
}

TEST(Webhook, WithoutAKeyIsNotSigned) {
  const auto request = sink_request(sink_of(SinkKind::webhook, "http://h"), {hot_gpu()}, kNoon);
  EXPECT_EQ(header(request, "x-gpuyard-signature"), "");
  EXPECT_EQ(header(request, "authorization"), "");
  EXPECT_EQ(request.target, "/");
}

TEST(Slack, AlertIsShownWithEscapedText) {
  Notification notice = hot_gpu();
  notice.message = "<!channel> GPU 3 & 91 °C > 80 °C";
  const auto request = sink_request(
      sink_of(SinkKind::slack, "https://hooks.slack.com/services/T/B/x"), {notice}, kNoon);
  EXPECT_EQ(request.target, "/services/T/B/x");
  const value body = parsed(request);
  EXPECT_EQ(text_at(body, "/text"), "CRITICAL: &lt;!channel&gt; GPU 3 &amp; 91 °C &gt; 80 °C");
  EXPECT_EQ(text_at(body, "/blocks/0/text/text"),
            "*CRITICAL* &lt;!channel&gt; GPU 3 &amp; 91 °C &gt; 80 °C\nLook at its fans.");
  EXPECT_EQ(text_at(body, "/blocks/1/elements/0/text"),
            "node7, GPU 3 (NVIDIA H100 80GB HBM3, GPU-3) | hot | severity 85 | since "
            "2026-01-31T12:00:00.250Z");
}

TEST(Slack, ResolvedTestAndSimulatedAreMarked) {
  Notification notice = cool_again();
  notice.simulated = notice.test = true;
  notice.gpu.reset();
  const value body = parsed(sink_request(sink_of(SinkKind::slack, "https://h"), {notice}, kNoon));
  EXPECT_EQ(text_at(body, "/text"),
            "RESOLVED: [test] [simulated] GPU 3 is at 91 °C, threshold 80 °C");
  EXPECT_EQ(text_at(body, "/blocks/1/elements/0/text"),
            "node7 | hot | severity 85 | since 2026-01-31T12:00:00.250Z, ended "
            "2026-01-31T12:05:00.250Z");
}

TEST(Slack, NeverSaysMoreThanSlackTakes) {
  Notification notice = hot_gpu();
  notice.message = notice.advice = notice.host = std::string(10'000, '&');
  const value body = parsed(sink_request(sink_of(SinkKind::slack, "https://h"), {notice}, kNoon));
  for (const char* place : {"/blocks/0/text/text", "/blocks/1/elements/0/text"}) {
    EXPECT_LE(text_at(body, place).size(), 3000U) << place;
  }
}

TEST(PagerDuty, TriggersAndResolvesOneIncident) {
  auto sink = sink_of(SinkKind::pagerduty, "https://events.pagerduty.com/v2/enqueue");
  sink.key = Secret("R0UTE");
  const value on = parsed(sink_request(sink, {hot_gpu()}, kNoon));
  EXPECT_EQ(text_at(on, "/routing_key"), "R0UTE");
  EXPECT_EQ(text_at(on, "/event_action"), "trigger");
  EXPECT_EQ(text_at(on, "/dedup_key"), "hot/GPU-3");
  EXPECT_EQ(text_at(on, "/payload/summary"), "GPU 3 is at 91 °C, threshold 80 °C");
  EXPECT_EQ(text_at(on, "/payload/source"), "node7");
  EXPECT_EQ(text_at(on, "/payload/severity"), "critical");
  EXPECT_EQ(text_at(on, "/payload/timestamp"), "2026-01-31T12:00:00.250Z");
  EXPECT_EQ(text_at(on, "/payload/component"), "GPU 3");
  EXPECT_EQ(text_at(on, "/payload/class"), "hot");
  EXPECT_EQ(text_at(on, "/payload/custom_details/gpu/uuid"), "GPU-3");
  EXPECT_EQ(text_at(on, "/payload/custom_details/delivery"), "n-1");
  const value off = parsed(sink_request(sink, {cool_again()}, kNoon));
  EXPECT_EQ(text_at(off, "/event_action"), "resolve");
  EXPECT_EQ(text_at(off, "/dedup_key"), "hot/GPU-3");
  EXPECT_EQ(text_at(off, "/payload/timestamp"), "2026-01-31T12:05:00.250Z");
}

TEST(PagerDuty, DedupKeyWithoutGpuIncludesHost) {
  Notification here = hot_gpu();
  here.key = "sink-failing/node";
  here.gpu.reset();
  Notification there = here;
  there.host = "node8";
  const auto incident = [](const Notification& notice) {
    const auto sink = sink_of(SinkKind::pagerduty, "https://h");
    return text_at(parsed(sink_request(sink, {notice}, kNoon)), "/dedup_key");
  };
  EXPECT_EQ(incident(here), "sink-failing/node/node7");
  EXPECT_EQ(incident(there), "sink-failing/node/node8");
}

TEST(PagerDuty, ShortensASummaryAtAWholeCharacter) {
  Notification notice = hot_gpu();
  notice.message.clear();
  for (int i = 0; i < 1000; ++i) notice.message += "°";
  const value body =
      parsed(sink_request(sink_of(SinkKind::pagerduty, "https://h"), {notice}, kNoon));
  const std::string summary = text_at(body, "/payload/summary");
  EXPECT_LE(summary.size(), 1024U);
  EXPECT_TRUE(summary.ends_with("°...")) << summary;
}

TEST(Alertmanager, LabelsExcludeChangingValues) {
  const auto sink = sink_of(SinkKind::alertmanager, "http://127.0.0.1:9093");
  Notification hotter = hot_gpu("n-9");
  hotter.message = "GPU 3 is at 95 °C";
  hotter.severity = 90;
  const auto request = sink_request(sink, {hot_gpu(), hotter}, kNoon + std::chrono::hours(1));
  EXPECT_EQ(request.target, "/api/v2/alerts");
  const value body = parsed(request);
  EXPECT_EQ(body.at(0).at("labels"), body.at(1).at("labels"));
  EXPECT_EQ(body.at(0).at("labels"), (value{{"alertname", "hot"},
                                            {"instance", "node7"},
                                            {"job", "gpuyard"},
                                            {"severity", "critical"},
                                            {"uuid", "GPU-3"}}));
  EXPECT_EQ(text_at(body, "/1/annotations/summary"), "GPU 3 is at 95 °C");
  EXPECT_EQ(text_at(body, "/1/annotations/severity"), "90");
  EXPECT_EQ(text_at(body, "/1/annotations/gpu"), "3");
  EXPECT_EQ(text_at(body, "/1/annotations/description"), "Look at its fans.");
  EXPECT_EQ(text_at(body, "/1/startsAt"), "2026-01-31T12:00:00.250Z");
  EXPECT_EQ(text_at(body, "/1/endsAt"), "2026-01-31T13:04:00.250Z");  // unless it is sent again
}

TEST(Alertmanager, KnowsAGpuThatHasAnotherIndexNow) {
  Notification moved = hot_gpu();
  moved.gpu->index = 2;
  const value body =
      parsed(sink_request(sink_of(SinkKind::alertmanager, "http://h"), {hot_gpu(), moved}, kNoon));
  EXPECT_EQ(body.at(0).at("labels"), body.at(1).at("labels"));
  EXPECT_EQ(text_at(body, "/1/annotations/gpu"), "2");
}

TEST(Alertmanager, SaysWhenItEnded) {
  const auto sink = sink_of(SinkKind::alertmanager, "http://127.0.0.1:9093/am/");
  const auto request = sink_request(sink, {cool_again()}, kNoon + std::chrono::hours(1));
  EXPECT_EQ(request.target, "/am/api/v2/alerts");
  EXPECT_EQ(text_at(parsed(request), "/0/endsAt"), "2026-01-31T12:05:00.250Z");
  EXPECT_EQ(
      sink_request(sink_of(SinkKind::alertmanager, "http://h/api/v2/alerts"), {}, kNoon).target,
      "/api/v2/alerts");
}

TEST(Alertmanager, EndTimeIsNotBeforeStartTime) {
  const auto sink = sink_of(SinkKind::alertmanager, "http://h");
  const WallTime earlier = kNoon - std::chrono::hours(2);  // the clock was set back
  Notification over = cool_again();
  over.ended_at = earlier;
  const value body = parsed(sink_request(sink, {hot_gpu(), over}, earlier));
  EXPECT_EQ(text_at(body, "/0/startsAt"), "2026-01-31T10:00:00.250Z");
  EXPECT_EQ(text_at(body, "/0/endsAt"), "2026-01-31T10:04:00.250Z");
  EXPECT_EQ(text_at(body, "/1/startsAt"), "2026-01-31T10:00:00.250Z");
  EXPECT_EQ(text_at(body, "/1/endsAt"), "2026-01-31T10:00:00.250Z");
}

TEST(Url, IsTakenApart) {
  struct Case {
    const char* text;
    const char* origin;
    const char* target;
    const char* userinfo;
  };
  for (const auto& [text, origin, target, userinfo] :
       {Case{"https://h", "h", "/", ""}, Case{"http://h:80/a", "h", "/a", ""},
        Case{"https://h:80?x=/", "h:80", "/?x=/", ""}, Case{"http://[::1]", "[::1]", "/", ""},
        Case{"http://[::1]:81/", "[::1]:81", "/", ""},
        Case{"https://u:p%40@h:1/a#b", "h:1", "/a", "u:p@"},
        Case{"https://h/a@b:c", "h", "/a@b:c", ""}}) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(url->origin.text(), origin);
    EXPECT_EQ(url->target.reveal(), target);
    EXPECT_EQ(url->userinfo.reveal(), userinfo);
  }
  for (const char* text :
       {"", "h", "//h", "https://", "https:///a", "https://h:0", "https://h:x", "https://h:65536",
        "https://h:", "https://a:b:c", "https://[::1", "https://[::1]x", "https://u%@h",
        "https://h /", "https://h\n", "https://u@", "HTTPS"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

}  // namespace
}  // namespace gpuyard::notify
