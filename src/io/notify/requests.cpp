#include "notify/requests.h"

#include <utility>

namespace gpuyard::notify {

std::string headline(const Notice& notice) {
  std::string text = notice.message;
  if (notice.simulated) text.insert(0, "[simulated] ");
  if (notice.test) text.insert(0, "[test] ");
  return text;
}

std::string clipped(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::string_view kMore = "...";
  std::size_t end = most - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text.append(kMore);
}

http::ClientRequest request_for(const SinkConfig& sink, const std::vector<Notice>& notices,
                                WallTime now) {
  http::ClientRequest request;
  switch (sink.kind) {
    case SinkKind::slack:
      request = slack_request(sink, notices.front());
      break;
    case SinkKind::pagerduty:
      request = pagerduty_request(sink, notices.front());
      break;
    case SinkKind::alertmanager:
      request = alertmanager_request(sink, notices, now);
      break;
    case SinkKind::log:
    case SinkKind::command:
    case SinkKind::webhook:
      request = webhook_request(sink, notices.front(), now);
      break;
  }
  request.method = http::Method::post;
  request.headers.push_back({"User-Agent", "gpuyard"});
  if (!sink.authorization.empty()) {
    request.headers.push_back({"Authorization", sink.authorization.reveal()});
  }
  return request;
}

}  // namespace gpuyard::notify
