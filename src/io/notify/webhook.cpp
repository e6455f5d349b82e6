#include <fmt/format.h>

#include "base/json_writer.h"
#include "notify/requests.h"
#include "notify/signature.h"

namespace gpuyard::notify {

http::ClientRequest webhook_request(const SinkConfig& sink, const Notice& notice, WallTime now) {
  http::ClientRequest request;
  request.target = sink.url.target.reveal();
  request.body = json::to_json(notice);
  request.body.replace(0, 1, R"({"schema":1,)");
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const std::string timestamp = std::to_string(seconds);
  request.headers.push_back({"X-Gpuyard-Delivery", notice.id});
  request.headers.push_back({"X-Gpuyard-Timestamp", timestamp});
  if (!sink.key.empty()) {
    // With the time, so that an old message cannot be sent again by somebody else.
    const std::string mac = hmac_sha256(sink.key, timestamp + "." + request.body);
    request.headers.push_back({"X-Gpuyard-Signature", "sha256=" + mac});
  }
  return request;
}

}  // namespace gpuyard::notify
