#include "faces/client/daemon_client.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/text.h"
#include "faces/client/local_daemon.h"
#include "faces/protocol/fields.h"
#include "io/http/target.h"

namespace gpuyard::client {
namespace {

Errc errc_of_status(int status) {
  constexpr int kUnauthorized = 401;
  if (status == kUnauthorized) return Errc::denied;
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
    const auto code = static_cast<Errc>(i);
    if (code != Errc::busy && http_status_of(code) == status) return code;
  }
  return Errc::internal;
}

std::optional<std::string> text_in(const boost::json::object& object, std::string_view name) {
  const boost::json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->get_string());
}

// Says what a refusal over TLS lacks: the daemon does not know from where a client has its token.
Error explain_denial(Error error, const http::Endpoint& daemon, const protocol::RouteInfo& route) {
  if (error.code != Errc::denied || daemon.kind != http::Endpoint::Kind::tls) return error;
  const std::string& host = daemon.tls->origin.host;
  if (route.local) {
    return {Errc::denied, "permission denied: tokens are managed on the machine itself", "",
            fmt::format("gpuyard -H ssh://{} token list", host)};
  }
  if (!daemon.tls->token.empty()) return error;
  return {Errc::denied,
          fmt::format("permission denied: {} needs a token with the scope \"{}\"", host,
                      enum_name(route.scope)),
          fmt::format("no token for {} is in hosts.toml, GPUYARD_TOKEN or GPUYARD_TOKEN_FILE",
                      daemon.text()),
          fmt::format("ssh {} gpuyard token create NAME --scope {}", host, enum_name(route.scope))};
}

// Says the same of one of several problems. Without a body or a place in a list, text that begins
// with a slash may be the path of a file.
std::string readable_problem(std::string_view problem, bool of_body) {
  const std::size_t end = problem.find(": ");
  if (!problem.starts_with('/') || end == problem.npos) return std::string(problem);
  std::string_view place = problem.substr(1, end - 1);
  const std::string_view field = take_until('/', place);
  const auto in_name = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
  const bool named = !field.empty() && std::ranges::all_of(field, in_name) &&
                     place.find_first_not_of("0123456789") == place.npos;
  if (!named || (!of_body && place.empty())) return std::string(problem);
  return fmt::format("{}{}", field, problem.substr(end));
}

constexpr std::string_view kNotFoundSuffix = "\" not found";

// Says "GPU index 9 is out of range" as the program says it of any name.
std::string readable_gpu_problem(std::string problem) {
  constexpr std::string_view kIndex = "GPU index ";
  constexpr std::string_view kOutOfRange = " is out of range";
  const std::size_t at = problem.find(kIndex);
  if (at == problem.npos || !problem.ends_with(kOutOfRange)) return problem;
  const std::size_t number = at + kIndex.size();
  const std::string index = problem.substr(number, problem.size() - kOutOfRange.size() - number);
  return fmt::format("{}GPU \"{}{}", problem.substr(0, at), index, kNotFoundSuffix);
}

constexpr std::size_t kMaxErrorBodyBytes = 1000;  // of a body that is not an error of gpuyard

// The message of a daemon ends with its hint, for clients that do not know the hint.
void extract_hint(Error& error, std::string hint) {
  const std::string end = Error{error.code, "", "", hint}.text();
  if (!error.message.ends_with(end)) return;
  error.message.erase(error.message.size() - end.size());
  error.hint = std::move(hint);
}

// A daemon never redirects: the answer is from a proxy in front of it or from another server.
Error redirect_error(const http::ClientResponse& response) {
  const std::string_view to = response.header("Location");
  return {
      Errc::invalid,
      fmt::format("the server redirected the request with status {}{}{}", response.status,
                  to.empty() ? "" : ", to ", to.substr(0, kMaxErrorBodyBytes)),
      "redirects are not followed, because that would send the token to another server; use the "
      "daemon's own address"};
}

// Whether a refusal has the route's answer as its body, as /ready's has. A daemon at its limits
// and a proxy send the same status with something else.
bool carries_answer(const http::ClientResponse& refusal, const protocol::RouteInfo& route) {
  if (refusal.status != route.also_answers_with) return false;
  const auto document = json::parse(refusal.body);
  const auto* object = document ? document->if_object() : nullptr;
  return object != nullptr && !object->contains("error");
}

}  // namespace

bool is_transient(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::timed_out ||
         error.code == Errc::busy;
}

std::string target_of(std::string_view pattern, const NamedValues& parameters) {
  std::string target(pattern);
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    const std::string field = "{" + name + "}";
    if (const std::size_t at = target.find(field); at != std::string::npos) {
      target.replace(at, field.size(), http::percent_encode(value));
    } else {
      target += std::exchange(separator, '&');
      target += name + "=" + http::percent_encode(value);
    }
  }
  return target;
}

Result<std::string> exchange(const http::Endpoint& daemon, const protocol::RouteInfo& route,
                             std::string target, std::string body, Duration timeout,
                             std::size_t max_answer, RetryPolicy retry_policy) {
  http::ClientRequest request;
  if (route.method == "POST") request.method = http::Method::post;
  if (route.method == "PUT") request.method = http::Method::put;
  if (route.method == "DELETE") request.method = http::Method::del;
  request.target = std::move(target);
  request.body = std::move(body);
  const TimePoint began = BootClock::now();
  for (int attempt = 0;; ++attempt) {
    auto response = http::fetch(daemon, request, timeout, max_answer);
    if (!response) return add_start_hint(std::move(response).error(), daemon);
    if (response->status / 100 == 2 || carries_answer(*response, route)) {
      return std::move(response->body);
    }
    const auto wait = retry_policy == RetryPolicy::while_loading
                          ? retry_delay(*response, attempt, BootClock::now() - began)
                          : std::nullopt;
    if (!wait) return explain_denial(error_of(*response), daemon, route);
    std::this_thread::sleep_for(*wait);
  }
}

std::optional<Duration> retry_delay(const http::ClientResponse& refusal, int attempt,
                                    Duration elapsed) {
  constexpr Duration kMinWait = std::chrono::milliseconds(100);
  constexpr Duration kMaxTurnWait = std::chrono::seconds(5);
  constexpr int kMaxTurns = 3;
  const bool reads = !refusal.header(protocol::kReadingField).empty();
  const bool waits_turn = !reads && attempt < kMaxTurns && error_of(refusal).code == Errc::busy;
  const auto seconds = parse_number<std::uint32_t>(refusal.header("Retry-After"));
  if ((!reads && !waits_turn) || !seconds) return std::nullopt;
  const Duration wait = std::max<Duration>(std::chrono::seconds(*seconds), kMinWait);
  return elapsed + wait <= (reads ? kLoadTimeout : kMaxTurnWait) ? std::optional(wait)
                                                                 : std::nullopt;
}

std::string readable_message(const std::string& message) {
  constexpr std::string_view kBody = "body: ";
  constexpr std::string_view kBetween = "; ";
  std::string_view rest = message;
  const bool of_body = rest.starts_with("body: /");
  if (of_body) rest.remove_prefix(kBody.size());
  std::string text;
  for (;;) {
    const std::size_t end = std::min(rest.find(kBetween), rest.size());
    text += readable_gpu_problem(readable_problem(rest.substr(0, end), of_body));
    if (end == rest.size()) break;
    text += kBetween;
    rest.remove_prefix(end + kBetween.size());
  }
  return of_body && text.starts_with('/') ? message : text;
}

// Reads {"error": {"code", "message", "hint"}} or {"detail": message}, or
// {"reason": message} of a daemon that is not ready; else the body is the message. A page is not:
// it is from a proxy in front of the daemon, or from another server.
Error error_of(const http::ClientResponse& response) {
  if (response.status / 100 == 3) return redirect_error(response);
  Error error{errc_of_status(response.status), response.body.substr(0, kMaxErrorBodyBytes)};
  if (trim(response.body).starts_with('<')) {
    error.message = fmt::format("status {} from a proxy or another server", response.status);
  }
  const auto document = json::parse(response.body);
  const auto* object = document ? document->if_object() : nullptr;
  if (object == nullptr) return error;
  for (const char* name : {"detail", "reason"}) {
    if (const auto text = text_in(*object, name)) error.message = readable_message(*text);
  }
  const auto* inner = object->if_contains("error");
  if (inner == nullptr || !inner->is_object()) return error;
  if (const auto message = text_in(inner->get_object(), "message")) {
    error.message = readable_message(*message);
  }
  if (auto hint = text_in(inner->get_object(), "hint")) extract_hint(error, *std::move(hint));
  const auto code = text_in(inner->get_object(), "code");
  if (const auto known = code ? enum_from_name<Errc>(*code) : std::nullopt) error.code = *known;
  const bool of_gpu = error.message.find("GPU \"") != error.message.npos;
  if (of_gpu && error.hint.empty() && error.message.ends_with(kNotFoundSuffix)) {
    error.hint = "gpuyard devices";
  }
  return error;
}

}  // namespace gpuyard::client
