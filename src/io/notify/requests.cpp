#include "io/notify/requests.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/html.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "io/http/client_socket.h"
#include "io/http/openssl.h"

namespace gpuyard::notify {
namespace {

constexpr std::string_view kAlertsPath = "/api/v2/alerts";
// The number of missed repetitions after which Alertmanager ends an alert.
constexpr int kMaxMissedRepetitions = 4;

using Texts = std::map<std::string, std::string>;

// Alertmanager identifies an alert by its labels: no measured value is among them, nor a GPU's
// index, which may change.
Texts labels_of(const Notification& notification) {
  Texts labels{{"alertname", notification.rule},
               {"instance", notification.host},
               {"job", "gpuyard"},
               {"severity", std::string(enum_name(notification.level))}};
  if (notification.gpu) labels["uuid"] = notification.gpu->uuid;
  if (notification.simulated) labels["simulated"] = "true";
  if (notification.test) labels["test"] = "true";
  return labels;
}

Texts annotations_of(const Notification& notification) {
  Texts annotations{{"summary", headline(notification)},
                    {"severity", std::to_string(notification.severity)},
                    {"delivery", notification.id}};
  if (!notification.advice.empty()) annotations["description"] = notification.advice;
  if (notification.gpu) {
    annotations["gpu"] = name_of(*notification.gpu);
    annotations["gpu_name"] = notification.gpu->name;
    annotations["pci_address"] = notification.gpu->pci_address;
  }
  return annotations;
}

// The moment at which Alertmanager ends the alert, unless it is notified of it again before.
WallTime end_time_of(const Notification& notification, WallTime now, Duration resend) {
  if (notification.status == Status::resolved) return notification.ended_at.value_or(now);
  return now +
         std::chrono::duration_cast<std::chrono::milliseconds>(resend * kMaxMissedRepetitions);
}

// An alert that ends before it starts is refused: a clock that was set back must not cost an alert.
void put_alert(std::string& out, const Notification& notification, WallTime now, Duration resend) {
  const WallTime starts = std::min(notification.started_at, now);
  const WallTime ends = std::max(starts, end_time_of(notification, now, resend));
  out += R"({"labels":)" + json::to_json(labels_of(notification));
  out += R"(,"annotations":)" + json::to_json(annotations_of(notification));
  out += R"(,"startsAt":)" + json::to_json(starts);
  out += R"(,"endsAt":)" + json::to_json(ends) + "}";
}

// PagerDuty's own limits.
constexpr std::size_t kMaxSummaryBytes = 1024;
constexpr std::size_t kMaxDedupKeyBytes = 255;

struct Details {
  std::string message;
  std::string advice;
  unsigned severity = 0;
  std::optional<NotificationGpu> gpu;
  WallTime started_at{};
  std::optional<WallTime> ended_at;
  bool simulated = false;
  bool test = false;
  std::string delivery;
};
BOOST_DESCRIBE_STRUCT(Details, (),
                      (message, advice, severity, gpu, started_at, ended_at, simulated, test,
                       delivery))

// PagerDuty is notified by many machines: the key of an alert without a GPU needs the machine's
// name.
std::string incident_of(const Notification& notification) {
  return clip_text(notification.gpu ? notification.key : notification.key + "/" + notification.host,
                   kMaxDedupKeyBytes);
}

// A section holds 3000 characters: message and advice have their share, names have less.
constexpr std::size_t kMaxSlackTextBytes = 1400;
constexpr std::size_t kMaxSlackNameBytes = 500;

// Escapes the text as Slack wants it and cuts it, so that the result has at most `max_bytes` bytes.
std::string fit_text(const std::string& text, std::size_t max_bytes) {
  for (std::size_t raw = max_bytes;; raw /= 2) {
    std::string out = escape_html(clip_text(text, raw));
    if (out.size() <= max_bytes) return out;
  }
}

std::string status_word(const Notification& notification) {
  if (notification.status == Status::resolved) return "RESOLVED";
  std::string word(enum_name(notification.level));
  for (char& c : word) c = to_upper(c);
  return word;
}

std::string source_text(const Notification& notification) {
  std::string host = fit_text(notification.host, kMaxSlackNameBytes);
  if (!notification.gpu) return host;
  return fmt::format("{}, GPU {} ({}, {})", host,
                     fit_text(name_of(*notification.gpu), kMaxSlackNameBytes),
                     fit_text(notification.gpu->name, kMaxSlackNameBytes),
                     fit_text(notification.gpu->uuid, kMaxSlackNameBytes));
}

struct Text {
  std::string type = "mrkdwn";
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Text, (), (type, text))

struct Section {
  std::string type = "section";
  Text text;
};
BOOST_DESCRIBE_STRUCT(Section, (), (type, text))

struct Context {
  std::string type = "context";
  std::vector<Text> elements;
};
BOOST_DESCRIBE_STRUCT(Context, (), (type, elements))

}  // namespace

std::string headline(const Notification& notification) {
  std::string text = notification.message;
  if (notification.simulated) text.insert(0, "[simulated] ");
  if (notification.test) text.insert(0, "[test] ");
  return text;
}

std::string clip_text(std::string text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  constexpr std::string_view kEllipsis = "...";
  std::size_t end = max_bytes - kEllipsis.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text.append(kEllipsis);
}

http::ClientRequest sink_request(const SinkConfig& sink,
                                 const std::vector<Notification>& notifications, WallTime now) {
  http::ClientRequest request;
  switch (sink.kind) {
    case SinkKind::slack:
      request = slack_request(sink, notifications.front());
      break;
    case SinkKind::pagerduty:
      request = pagerduty_request(sink, notifications.front());
      break;
    case SinkKind::alertmanager:
      request = alertmanager_request(sink, notifications, now);
      break;
    case SinkKind::log:
    case SinkKind::command:
    case SinkKind::webhook:
      request = webhook_request(sink, notifications.front(), now);
      break;
  }
  request.method = http::Method::post;
  request.headers.push_back({"User-Agent", "gpuyard"});
  if (!sink.authorization.empty()) {
    request.headers.push_back({"Authorization", sink.authorization.reveal()});
  }
  return request;
}

http::ClientRequest webhook_request(const SinkConfig& sink, const Notification& notification,
                                    WallTime now) {
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = json::to_json(notification);
  request.body.replace(0, 1, R"({"schema":1,)");
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const std::string timestamp = std::to_string(seconds);
  request.headers.push_back({"X-Gpuyard-Delivery", notification.id});
  request.headers.push_back({"X-Gpuyard-Timestamp", timestamp});
  if (!sink.key.empty()) {
    // The time is signed, too, so that nobody else can send an old message again.
    const std::string mac = hmac_sha256(sink.key, timestamp + "." + request.body);
    request.headers.push_back({"X-Gpuyard-Signature", "sha256=" + mac});
  }
  return request;
}

http::ClientRequest alertmanager_request(const SinkConfig& sink,
                                         const std::vector<Notification>& notifications,
                                         WallTime now) {
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  if (!request.target.ends_with(kAlertsPath)) {
    if (request.target.ends_with('/')) request.target.pop_back();
    request.target += kAlertsPath;
  }
  request.body = "[";
  for (const Notification& notification : notifications) {
    if (request.body.size() > 1) request.body += ',';
    put_alert(request.body, notification, now, sink.resend);
  }
  request.body += ']';
  return request;
}

http::ClientRequest pagerduty_request(const SinkConfig& sink, const Notification& notification) {
  const bool is_resolved = notification.status == Status::resolved;
  const Details details{notification.message,   notification.advice,     notification.severity,
                        notification.gpu,       notification.started_at, notification.ended_at,
                        notification.simulated, notification.test,       notification.id};
  std::string body;
  const auto field = [&](std::string_view key, const std::string& value) {
    body += body.empty() || body.back() == '{' ? "" : ",";
    json::put_string(body, key);
    body += ':';
    json::put_string(body, value);
  };
  body = "{";
  field("routing_key", sink.key.reveal());
  field("event_action", is_resolved ? "resolve" : "trigger");
  field("dedup_key", incident_of(notification));
  field("client", "gpuyard");
  body += R"(,"payload":{)";
  field("summary", clip_text(headline(notification), kMaxSummaryBytes));
  field("source", notification.host);
  field("severity", std::string(enum_name(notification.level)));
  field("timestamp", to_rfc3339(is_resolved && notification.ended_at ? *notification.ended_at
                                                                     : notification.started_at));
  if (notification.gpu) field("component", fmt::format("GPU {}", name_of(*notification.gpu)));
  field("class", notification.rule);
  body += R"(,"custom_details":)" + json::to_json(details) + "}}";
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = std::move(body);
  return request;
}

http::ClientRequest slack_request(const SinkConfig& sink, const Notification& notification) {
  const std::string message = fit_text(headline(notification), kMaxSlackTextBytes);
  Section section;
  section.text.text = fmt::format("*{}* {}", status_word(notification), message);
  if (notification.status == Status::firing && !notification.advice.empty()) {
    section.text.text += "\n" + fit_text(notification.advice, kMaxSlackTextBytes);
  }
  Context context;
  const std::string ended =
      notification.ended_at ? ", ended " + to_rfc3339(*notification.ended_at) : "";
  context.elements.push_back(
      {.text = fmt::format("{} | {} | severity {} | since {}{}", source_text(notification),
                           fit_text(notification.rule, kMaxSlackNameBytes), notification.severity,
                           to_rfc3339(notification.started_at), ended)});
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = R"({"text":)";
  // The text that notifications show, and clients without blocks.
  json::put_string(request.body, fmt::format("{}: {}", status_word(notification), message));
  request.body += R"(,"blocks":[)" + json::to_json(section) + "," + json::to_json(context) + "]}";
  return request;
}

std::string hmac_sha256(const Secret& key, std::string_view text) {
  http::start_openssl();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  ::HMAC(::EVP_sha256(), key.reveal().data(), static_cast<int>(key.reveal().size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length);
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace gpuyard::notify
