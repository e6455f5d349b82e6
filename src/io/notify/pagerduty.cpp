#include <fmt/format.h>

#include "base/json_writer.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

// PagerDuty's own limits.
constexpr std::size_t kMostSummary = 1024;
constexpr std::size_t kMostKey = 255;

struct Details {
  std::string message;
  std::string advice;
  unsigned severity = 0;
  std::optional<NoticeGpu> gpu;
  NoticeTime started_at;
  std::optional<NoticeTime> ended_at;
  bool simulated = false;
  bool test = false;
  std::string delivery;
};
BOOST_DESCRIBE_STRUCT(Details, (),
                      (message, advice, severity, gpu, started_at, ended_at, simulated, test,
                       delivery))

// PagerDuty hears of many machines: what is about none of their GPUs needs the machine's name.
std::string incident_of(const Notice& notice) {
  return clipped(notice.gpu ? notice.key : notice.key + "/" + notice.host, kMostKey);
}

}  // namespace

http::ClientRequest pagerduty_request(const SinkConfig& sink, const Notice& notice) {
  const bool over = notice.status == Status::resolved;
  const Details details{notice.message,   notice.advice,     notice.severity,
                        notice.gpu,       notice.started_at, notice.ended_at,
                        notice.simulated, notice.test,       notice.id};
  std::string body;
  const auto field = [&](std::string_view key, const std::string& value) {
    body += body.empty() || body.back() == '{' ? "" : ",";
    json::put_string(body, key);
    body += ':';
    json::put_string(body, value);
  };
  body = "{";
  field("routing_key", sink.key.reveal());
  field("event_action", over ? "resolve" : "trigger");
  field("dedup_key", incident_of(notice));
  field("client", "gpuyard");
  body += R"(,"payload":{)";
  field("summary", clipped(headline(notice), kMostSummary));
  field("source", notice.host);
  field("severity", std::string(enum_name(notice.level)));
  field("timestamp", to_rfc3339(over && notice.ended_at ? *notice.ended_at : notice.started_at));
  if (notice.gpu) field("component", fmt::format("GPU {}", notice.gpu->index));
  field("class", notice.rule);
  body += R"(,"custom_details":)" + json::to_json(details) + "}}";
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = std::move(body);
  return request;
}

}  // namespace gpuyard::notify
