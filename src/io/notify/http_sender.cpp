#include "io/notify/http_sender.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "io/notify/requests.h"

namespace gpuyard::notify {
namespace {

constexpr std::size_t kMaxExcerptBytes = 200;
constexpr std::size_t kSecretWindowBytes = 8;
constexpr std::size_t kMinSecretBytes = 4;

// Whether the text has a part of the secret that is long enough to help an attacker.
bool contains_secret(std::string_view text, std::string_view secret) {
  if (secret.size() < kMinSecretBytes) return false;
  const std::size_t window = std::min(secret.size(), kSecretWindowBytes);
  for (std::size_t at = 0; at + window <= secret.size(); ++at) {
    if (text.find(secret.substr(at, window)) != text.npos) return true;
  }
  return false;
}

// The receiver's explanation; "" if it repeats what only the receiver and we should know.
std::string explanation(const SinkConfig& sink, const std::string& body) {
  const std::array secrets = {&sink.url.target,    &sink.url.userinfo, &sink.key,
                              &sink.authorization, &sink.credential,   &sink.proxy_userinfo};
  for (const Secret* secret : secrets) {
    if (contains_secret(body, secret->reveal())) return "";
  }
  const auto& proxy = sink.url.origin.proxy;
  if (proxy && contains_secret(body, proxy->authorization)) return "";
  std::string_view text = body;
  while (!text.empty() && text.find_last_of(" \t\r\n") == text.size() - 1) text.remove_suffix(1);
  return text.empty() ? "" : ": " + printable(clip_text(std::string(text), kMaxExcerptBytes));
}

// Reads seconds only: the other form, a date, is rare, and our own back-off does as well.
std::optional<Duration> retry_after(const http::ClientResponse& response) {
  const auto seconds = parse_number<std::uint32_t>(response.header("retry-after"));
  return seconds ? std::optional<Duration>(std::chrono::seconds(*seconds)) : std::nullopt;
}

bool is_transient(int status) {
  constexpr std::array kTemporary = {408, 425, 429};
  return status >= 500 || std::ranges::find(kTemporary, status) != kTemporary.end();
}

constexpr std::size_t kMaxResponseBytes = std::size_t{1} << 20;

}  // namespace

SendResult classify_response(const SinkConfig& sink, const Result<http::ClientResponse>& response) {
  if (!response) return SendResult::retry_later(response.error().text());
  if (response->status / 100 == 2) return SendResult::delivered();
  std::string why = fmt::format("{} responded with {}{}", sink.destination(), response->status,
                                explanation(sink, response->body));
  if (!is_transient(response->status)) return SendResult::rejected(std::move(why));
  SendResult result = SendResult::retry_later(std::move(why));
  result.retry_after = retry_after(*response);
  return result;
}

Fetch fetch_over_network() {
  return [](const http::Origin& origin, const http::ClientRequest& request, Duration timeout) {
    return http::fetch_status(origin, request, timeout, kMaxResponseBytes);
  };
}

HttpSender::HttpSender(Loop& loop, SinkConfig sink, std::unique_ptr<Worker> worker, Fetch fetch)
    : loop_(loop),
      sink_(std::make_shared<const SinkConfig>(std::move(sink))),
      fetch_(std::make_shared<const Fetch>(std::move(fetch))),
      unused_proxy_(unused_proxy(*sink_)),
      worker_(std::move(worker)) {}

void HttpSender::send(std::vector<Notification> notifications, OnDone on_done) {
  const WallTime now = loop_.wall();
  // The task uses only what it owns, because it may be left behind.
  auto task = [sink = sink_, fetch = fetch_, proxy = unused_proxy_,
               notifications = std::move(notifications), now] {
    const auto response =
        (*fetch)(sink->url.origin, sink_request(*sink, notifications, now), sink->timeout);
    SendResult result = classify_response(*sink, response);
    if (!response && !proxy.empty()) {
      result.reason += fmt::format(
          "; {} is set but not used: to connect through a proxy, set proxy in [sink.{}]", proxy,
          sink->name);
    }
    return result;
  };
  const auto on_result =
      lifetime_.guard([on_done](SendResult result) { on_done(std::move(result)); });
  if (run_on_worker(*worker_, std::move(task), on_result)) return;
  loop_.post([on_result] { on_result(SendResult::retry_later("the sink's thread is busy")); });
}

}  // namespace gpuyard::notify
