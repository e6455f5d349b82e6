#include "io/notify/requests.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "io/http/client_socket.h"
#include "io/http/openssl.h"

namespace gpuyard::notify {

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
