#include "io/kube/answer.h"

#include <utility>

#include <fmt/format.h>
#include <boost/describe/class.hpp>

#include "base/json_reader.h"
#include "base/text.h"

namespace gpuyard::kube {
namespace {

constexpr std::size_t kMaxMessageBytes = 1000;
constexpr std::size_t kMaxReasonBytes = 100;

// Kubernetes' object of the kind Status, with which a server explains a refusal.
struct StatusObject {
  std::optional<std::string> kind;
  std::optional<std::string> reason;
  std::optional<std::string> message;
};
BOOST_DESCRIBE_STRUCT(StatusObject, (), (kind, reason, message))

// Any object; the caller knows which kind it asked for.
struct TypedObject {
  std::optional<std::string> kind;
};
BOOST_DESCRIBE_STRUCT(TypedObject, (), (kind))

Outcome outcome_of_refusal(int status, std::string_view reason, bool has_retry_after) {
  switch (status) {
    case 401:
      return Outcome::unauthorized;
    case 403:
      return Outcome::forbidden;
    case 404:
      return Outcome::absent;
    case 409:
      return reason == "AlreadyExists" ? Outcome::already_exists : Outcome::conflict;
    case 410:
      return Outcome::gone;
    case 429:
      return Outcome::throttled;
    case 503:
      return has_retry_after ? Outcome::throttled : Outcome::server_error;
    default:
      break;
  }
  if (status / 100 == 4) return Outcome::rejected;
  return status / 100 == 5 ? Outcome::server_error : Outcome::malformed;  // a redirect
}

std::string excerpt(std::string_view text, std::size_t max_bytes) {
  return printable(trim(text).substr(0, max_bytes));
}

// Kubernetes sends seconds, never a date.
std::optional<Duration> retry_after_of(const http::ClientResponse& response) {
  const auto seconds = parse_number<std::uint32_t>(response.header("retry-after"));
  return seconds ? std::optional<Duration>(std::chrono::seconds(*seconds)) : std::nullopt;
}

// The Status of a refusal. Proxies, and servers that lack the API, send plain text instead.
StatusObject status_of(const std::string& body) {
  auto status = json::from_json<StatusObject>(body, json::UnknownFields::ignore);
  if (status && status->kind == "Status") return *std::move(status);
  return {.kind = {}, .reason = {}, .message = body};
}

}  // namespace

bool may_be_carried_out(Outcome outcome) {
  return outcome == Outcome::ok || outcome == Outcome::unreachable ||
         outcome == Outcome::server_error || outcome == Outcome::malformed;
}

Answer unreachable_answer(std::string why) {
  return {.outcome = Outcome::unreachable, .message = std::move(why)};
}

Answer to_answer(std::string_view server, Result<http::ClientResponse> response) {
  if (!response) return unreachable_answer(response.error().text());
  Answer answer;
  answer.status = response->status;
  if (response->status / 100 == 2) {
    const auto object = json::from_json<TypedObject>(response->body, json::UnknownFields::ignore);
    answer.outcome = object ? Outcome::ok : Outcome::malformed;
    if (object) answer.body = std::move(response->body);
    if (!object) {
      answer.message = fmt::format("{} responded with {}, but not with a JSON object: {}", server,
                                   answer.status, object.error().text());
    }
    return answer;
  }
  const StatusObject status = status_of(response->body);
  answer.retry_after = retry_after_of(*response);
  answer.reason = excerpt(status.reason.value_or(""), kMaxReasonBytes);
  answer.outcome = outcome_of_refusal(answer.status, answer.reason, answer.retry_after.has_value());
  const std::string why = excerpt(status.message.value_or(""), kMaxMessageBytes);
  answer.message =
      fmt::format("{} responded with {}{}{}", server, answer.status, why.empty() ? "" : ": ", why);
  return answer;
}

}  // namespace gpuyard::kube
