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

constexpr std::string_view kPath = "/api/v2/alerts";
// How many missed repetitions let Alertmanager end an alert.
constexpr int kMissedRepetitions = 4;

using Texts = std::map<std::string, std::string>;

// Alertmanager identifies an alert by its labels: no measured value is among them, nor a GPU's
// index, which may change.
Texts labels_of(const Notice& notice) {
  Texts labels{{"alertname", notice.rule},
               {"instance", notice.host},
               {"job", "gpuyard"},
               {"severity", std::string(enum_name(notice.level))}};
  if (notice.gpu) labels["uuid"] = notice.gpu->uuid;
  if (notice.simulated) labels["simulated"] = "true";
  if (notice.test) labels["test"] = "true";
  return labels;
}

Texts annotations_of(const Notice& notice) {
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
WallTime end_of(const Notice& notice, WallTime now, Duration resend) {
  if (notice.status == Status::resolved) return notice.ended_at.value_or(NoticeTime(now));
  return now + std::chrono::duration_cast<std::chrono::milliseconds>(resend * kMissedRepetitions);
}

// An alert that ends before it starts is refused: a clock that was set back must not cost an alert.
void put_alert(std::string& out, const Notice& notice, WallTime now, Duration resend) {
  const WallTime starts = std::min<WallTime>(notice.started_at, now);
  const WallTime ends = std::max(starts, end_of(notice, now, resend));
  out += R"({"labels":)" + json::to_json(labels_of(notice));
  out += R"(,"annotations":)" + json::to_json(annotations_of(notice));
  out += R"(,"startsAt":)" + json::to_json(NoticeTime(starts));
  out += R"(,"endsAt":)" + json::to_json(NoticeTime(ends)) + "}";
}

}  // namespace

http::ClientRequest alertmanager_request(const SinkConfig& sink, const std::vector<Notice>& notices,
                                         WallTime now) {
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  if (!request.target.ends_with(kPath)) {
    if (request.target.ends_with('/')) request.target.pop_back();
    request.target += kPath;
  }
  request.body = "[";
  for (const Notice& notice : notices) {
    if (request.body.size() > 1) request.body += ',';
    put_alert(request.body, notice, now, sink.resend);
  }
  request.body += ']';
  return request;
}

std::vector<Notice> NotifiedLevels::completed(std::vector<Notice> notices, WallTime now) const {
  std::vector<Notice> ends;
  for (Notice& notice : notices) {
    const auto told = firing_.find(notice.key);
    if (told == firing_.end() || told->second == notice.level) continue;
    if (notice.status == Status::resolved) {
      notice.level = told->second;
      continue;
    }
    Notice end = notice;
    end.level = told->second;
    end.status = Status::resolved;
    end.ended_at = now;
    ends.push_back(std::move(end));
  }
  // Ends come first, because note() keeps the last notice of an alert as its present state.
  ends.insert(ends.end(), std::move_iterator(notices.begin()), std::move_iterator(notices.end()));
  return ends;
}

void NotifiedLevels::note(const std::vector<Notice>& notices) {
  for (const Notice& notice : notices) {
    if (notice.status == Status::resolved) {
      firing_.erase(notice.key);
    } else {
      firing_[notice.key] = notice.level;
    }
  }
}

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

// PagerDuty hears of many machines: the key of an alert without a GPU needs the machine's name.
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
constexpr std::size_t kMostText = 1400;
constexpr std::size_t kMostName = 500;

// Escapes the text as Slack wants it and cuts it, so that the result has at most `most` bytes.
std::string fitted(const std::string& text, std::size_t most) {
  for (std::size_t raw = most;; raw /= 2) {
    std::string out = in_html(clipped(text, raw));
    if (out.size() <= most) return out;
  }
}

std::string headword(const Notice& notice) {
  if (notice.status == Status::resolved) return "RESOLVED";
  std::string word(enum_name(notice.level));
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

std::string where(const Notice& notice) {
  std::string host = fitted(notice.host, kMostName);
  if (!notice.gpu) return host;
  return fmt::format("{}, GPU {} ({}, {})", host, fitted(name_of(*notice.gpu), kMostName),
                     fitted(notice.gpu->name, kMostName), fitted(notice.gpu->uuid, kMostName));
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

http::ClientRequest slack_request(const SinkConfig& sink, const Notice& notice) {
  const std::string message = fitted(headline(notice), kMostText);
  Section section;
  section.text.text = fmt::format("*{}* {}", headword(notice), message);
  if (notice.status == Status::firing && !notice.advice.empty()) {
    section.text.text += "\n" + fitted(notice.advice, kMostText);
  }
  Context context;
  const std::string ended = notice.ended_at ? ", ended " + to_rfc3339(*notice.ended_at) : "";
  context.elements.push_back(
      {.text = fmt::format("{} | {} | severity {} | since {}{}", where(notice),
                           fitted(notice.rule, kMostName), notice.severity,
                           to_rfc3339(notice.started_at), ended)});
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = R"({"text":)";
  // The text that notifications show, and clients without blocks.
  json::put_string(request.body, fmt::format("{}: {}", headword(notice), message));
  request.body += R"(,"blocks":[)" + json::to_json(section) + "," + json::to_json(context) + "]}";
  return request;
}

}  // namespace gpuyard::notify
