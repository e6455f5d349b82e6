#include <algorithm>
#include <map>

#include "base/json_writer.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

constexpr std::string_view kPath = "/api/v2/alerts";
// What fires ends by itself when it was not told again so many times.
constexpr int kMissedRepetitions = 4;

using Texts = std::map<std::string, std::string>;

// Labels are what an alert is for Alertmanager: nothing that is measured is among them, nor a GPU's
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
    annotations["gpu"] = std::to_string(notice.gpu->index);
    annotations["gpu_name"] = notice.gpu->name;
    annotations["pci_address"] = notice.gpu->pci_address;
  }
  return annotations;
}

// When it ends, if nobody says otherwise before.
WallTime end_of(const Notice& notice, WallTime now, Duration resend) {
  if (notice.status == Status::resolved) return notice.ended_at.value_or(NoticeTime(now));
  return now + std::chrono::duration_cast<std::chrono::milliseconds>(resend * kMissedRepetitions);
}

// What ends before it starts is refused: a clock that was set back must not cost an alert.
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

}  // namespace gpuyard::notify
