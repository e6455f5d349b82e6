#include "notify/answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

constexpr std::size_t kExcerpt = 200;
constexpr std::size_t kTooMuchInCommon = 8;
constexpr std::size_t kTooShortToMatter = 4;

// Whether a part of the secret that would help somebody is in the text.
bool gives_away(std::string_view text, std::string_view secret) {
  if (secret.size() < kTooShortToMatter) return false;
  const std::size_t window = std::min(secret.size(), kTooMuchInCommon);
  for (std::size_t at = 0; at + window <= secret.size(); ++at) {
    if (text.find(secret.substr(at, window)) != text.npos) return true;
  }
  return false;
}

// How the receiver explains itself; nothing if it repeats what only it and we should know.
std::string explanation(const SinkConfig& sink, const std::string& body) {
  const std::array secrets = {&sink.url.target, &sink.url.userinfo, &sink.key, &sink.authorization,
                              &sink.credential};
  for (const Secret* secret : secrets) {
    if (gives_away(body, secret->reveal())) return "";
  }
  std::string_view text = body;
  while (!text.empty() && text.find_last_of(" \t\r\n") == text.size() - 1) text.remove_suffix(1);
  return text.empty() ? "" : ": " + printable(clipped(std::string(text), kExcerpt));
}

// In seconds; the other form, a date, is rare, and our own back-off does as well.
std::optional<Duration> retry_after(const http::ClientResponse& response) {
  const std::string_view text = response.header("retry-after");
  std::uint32_t seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole ? std::optional<Duration>(std::chrono::seconds(seconds)) : std::nullopt;
}

bool passes(int status) {
  constexpr std::array kTemporary = {408, 425, 429};
  return status >= 500 || std::ranges::find(kTemporary, status) != kTemporary.end();
}

}  // namespace

Outcome judge(const SinkConfig& sink, const Result<http::ClientResponse>& answer) {
  if (!answer) return Outcome::later(answer.error().message);
  if (answer->status / 100 == 2) return Outcome::taken();
  std::string why = fmt::format("{} answered {}{}", sink.where(), answer->status,
                                explanation(sink, answer->body));
  if (!passes(answer->status)) return Outcome::refused(std::move(why));
  Outcome outcome = Outcome::later(std::move(why));
  outcome.after = retry_after(*answer);
  return outcome;
}

}  // namespace gpuyard::notify
