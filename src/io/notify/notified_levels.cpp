#include "io/notify/notified_levels.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/html.h"
#include "base/json_writer.h"
#include "io/notify/requests.h"

namespace gpuyard::notify {
namespace {

constexpr std::string_view kAlertsPath = "/api/v2/alerts";
// How many missed repetitions let Alertmanager end an alert.
constexpr int kMaxMissedRepetitions = 4;

using Texts = std::map<std::string, std::string>;

// Alertmanager identifies an alert by its labels: no measured value is among them, nor a GPU's
// index, which may change.
Texts labels_of(const Notification& notice) {
  Texts labels{{"alertname", notice.rule},
               {"instance", notice.host},
               {"job", "gpuyard"},
               {"severity", std::string(enum_name(notice.level))}};
  if (notice.gpu) labels["uuid"] = notice.gpu->uuid;
  if (notice.simulated) labels["simulated"] = "true";
  if (notice.test) labels["test"] = "true";
  return labels;
}

Texts annotations_of(const Notification& notice) {
  Texts annotations{{"summary", headline(notice)},
                    {"severity", std::to_string(notice.severity)},
                    {"delivery", notice.id}};
  if (!notice.advice.empty()) annotations["description"] = notice.advice;
  if (notice.gpu) {
    annotations["gpu"] = name_of(*notice.gpu);
    annotations["gpu_name"] = notice.gpu->name;
    annotations["pci_address"] = notice.gpu->pci_address;
  }
  return annotations;
}

// When the alert ends, unless Alertmanager is told of it again before.
WallTime end_time_of(const Notification& notice, WallTime now, Duration resend) {
  if (notice.status == Status::resolved) return notice.ended_at.value_or(NotificationTime(now));
  return now +
         std::chrono::duration_cast<std::chrono::milliseconds>(resend * kMaxMissedRepetitions);
}

// An alert that ends before it starts is refused: a clock that was set back must not cost an alert.
void put_alert(std::string& out, const Notification& notice, WallTime now, Duration resend) {
  const WallTime starts = std::min<WallTime>(notice.started_at, now);
  const WallTime ends = std::max(starts, end_time_of(notice, now, resend));
  out += R"({"labels":)" + json::to_json(labels_of(notice));
  out += R"(,"annotations":)" + json::to_json(annotations_of(notice));
  out += R"(,"startsAt":)" + json::to_json(NotificationTime(starts));
  out += R"(,"endsAt":)" + json::to_json(NotificationTime(ends)) + "}";
}

}  // namespace

http::ClientRequest alertmanager_request(const SinkConfig& sink,
                                         const std::vector<Notification>& notices, WallTime now) {
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  if (!request.target.ends_with(kAlertsPath)) {
    if (request.target.ends_with('/')) request.target.pop_back();
    request.target += kAlertsPath;
  }
  request.body = "[";
  for (const Notification& notice : notices) {
    if (request.body.size() > 1) request.body += ',';
    put_alert(request.body, notice, now, sink.resend);
  }
  request.body += ']';
  return request;
}

std::vector<Notification> NotifiedLevels::add_level_changes(std::vector<Notification> notices,
                                                            WallTime now) const {
  std::vector<Notification> ends;
  for (Notification& notice : notices) {
    const auto told = firing_.find(notice.key);
    if (told == firing_.end() || told->second == notice.level) continue;
    if (notice.status == Status::resolved) {
      notice.level = told->second;
      continue;
    }
    Notification end = notice;
    end.level = told->second;
    end.status = Status::resolved;
    end.ended_at = now;
    ends.push_back(std::move(end));
  }
  // Ends come first, because note() keeps the last notice of an alert as its present state.
  ends.insert(ends.end(), std::move_iterator(notices.begin()), std::move_iterator(notices.end()));
  return ends;
}

void NotifiedLevels::record(const std::vector<Notification>& notices) {
  for (const Notification& notice : notices) {
    if (notice.status == Status::resolved) {
      firing_.erase(notice.key);
    } else {
      firing_[notice.key] = notice.level;
    }
  }
}

namespace {

// PagerDuty's own limits.
constexpr std::size_t kMaxSummaryBytes = 1024;
constexpr std::size_t kMaxDedupKeyBytes = 255;

struct Details {
  std::string message;
  std::string advice;
  unsigned severity = 0;
  std::optional<NotificationGpu> gpu;
  NotificationTime started_at;
  std::optional<NotificationTime> ended_at;
  bool simulated = false;
  bool test = false;
  std::string delivery;
};
BOOST_DESCRIBE_STRUCT(Details, (),
                      (message, advice, severity, gpu, started_at, ended_at, simulated, test,
                       delivery))

// PagerDuty hears of many machines: the key of an alert without a GPU needs the machine's name.
std::string incident_of(const Notification& notice) {
  return clip_text(notice.gpu ? notice.key : notice.key + "/" + notice.host, kMaxDedupKeyBytes);
}

}  // namespace

http::ClientRequest pagerduty_request(const SinkConfig& sink, const Notification& notice) {
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
  field("summary", clip_text(headline(notice), kMaxSummaryBytes));
  field("source", notice.host);
  field("severity", std::string(enum_name(notice.level)));
  field("timestamp", to_rfc3339(over && notice.ended_at ? *notice.ended_at : notice.started_at));
  if (notice.gpu) field("component", fmt::format("GPU {}", name_of(*notice.gpu)));
  field("class", notice.rule);
  body += R"(,"custom_details":)" + json::to_json(details) + "}}";
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = std::move(body);
  return request;
}

namespace {

// A section holds 3000 characters: message and advice have their share, names have less.
constexpr std::size_t kMaxSlackTextBytes = 1400;
constexpr std::size_t kMaxSlackNameBytes = 500;

// Escapes the text as Slack wants it and cuts it, so that the result has at most `most` bytes.
std::string fit_text(const std::string& text, std::size_t most) {
  for (std::size_t raw = most;; raw /= 2) {
    std::string out = escape_html(clip_text(text, raw));
    if (out.size() <= most) return out;
  }
}

std::string status_word(const Notification& notice) {
  if (notice.status == Status::resolved) return "RESOLVED";
  std::string word(enum_name(notice.level));
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

std::string source_text(const Notification& notice) {
  std::string host = fit_text(notice.host, kMaxSlackNameBytes);
  if (!notice.gpu) return host;
  return fmt::format("{}, GPU {} ({}, {})", host,
                     fit_text(name_of(*notice.gpu), kMaxSlackNameBytes),
                     fit_text(notice.gpu->name, kMaxSlackNameBytes),
                     fit_text(notice.gpu->uuid, kMaxSlackNameBytes));
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

http::ClientRequest slack_request(const SinkConfig& sink, const Notification& notice) {
  const std::string message = fit_text(headline(notice), kMaxSlackTextBytes);
  Section section;
  section.text.text = fmt::format("*{}* {}", status_word(notice), message);
  if (notice.status == Status::firing && !notice.advice.empty()) {
    section.text.text += "\n" + fit_text(notice.advice, kMaxSlackTextBytes);
  }
  Context context;
  const std::string ended = notice.ended_at ? ", ended " + to_rfc3339(*notice.ended_at) : "";
  context.elements.push_back(
      {.text = fmt::format("{} | {} | severity {} | since {}{}", source_text(notice),
                           fit_text(notice.rule, kMaxSlackNameBytes), notice.severity,
                           to_rfc3339(notice.started_at), ended)});
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = R"({"text":)";
  // The text that notifications show, and clients without blocks.
  json::put_string(request.body, fmt::format("{}: {}", status_word(notice), message));
  request.body += R"(,"blocks":[)" + json::to_json(section) + "," + json::to_json(context) + "]}";
  return request;
}

}  // namespace gpuyard::notify
