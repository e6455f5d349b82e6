// A blocking HTTP/1.1 client for one request, or for a stream of events: the verbs' way to the
// daemon, and the daemon's to servers elsewhere. Knows no route.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"
#include "io/http/event_parser.h"
#include "io/http/message.h"
#include "io/http/origin.h"

namespace gpuyard::http {

struct ClientRequest {
  Method method = Method::get;
  std::string target = "/";  // path and query, already percent-encoded
  std::vector<Header> headers;
  std::string content_type = "application/json";  // sent with a body only
  std::string body;
};

struct ClientResponse {
  int status = 0;
  std::vector<Header> headers;
  std::string body;

  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

inline constexpr std::size_t kDefaultMaxBodyBytes = std::size_t{64} * 1024 * 1024;

// Thread: any; blocks at most `timeout` for connecting, sending and receiving together. Any status
// is a success here; 100 and others that only precede the answer are passed over. Errc::unavailable
// if nobody listens or the answer breaks off, timed_out if it does not come, denied if the socket's
// permissions forbid it; the message names the endpoint. A tunnel's login is not counted: it has a
// deadline of its own.
Result<ClientResponse> fetch(const Endpoint& endpoint, const ClientRequest& request,
                             Duration timeout, std::size_t max_body = kDefaultMaxBodyBytes);

// The same from a server elsewhere. The deadline also covers finding its address. Errc::denied if
// its certificate is not trusted or is for another host. Redirects are not followed.
Result<ClientResponse> fetch(const Origin& origin, const ClientRequest& request, Duration timeout,
                             std::size_t max_body = kDefaultMaxBodyBytes);

// The same, for a caller that needs only the status: once the answer's head is there, a body that
// breaks off, is too long or does not end in time is cut short, and no error.
Result<ClientResponse> fetch_status(const Origin& origin, const ClientRequest& request,
                                    Duration timeout, std::size_t max_body);

// Shakes hands with the origin and sends it nothing. Somebody in between can show a certificate of
// their own: the user must compare it with what the server's owner says.
Result<PresentedCertificate> fetch_certificate(const Origin& origin, Duration timeout);

// One connection to a stream of events. Thread: any, one at a time.
class EventReader {
 public:
  // Fails as fetch() does. `timeout` is for the answer's head.
  static Result<EventReader> open(const Endpoint&, ClientRequest, Duration timeout);
  EventReader(EventReader&&) noexcept;
  EventReader& operator=(EventReader&&) noexcept;
  ~EventReader();

  // Status 200, or the refusal with its body.
  const ClientResponse& response() const;
  // The next event; nothing if none came within `wait`. Errc::not_found when the server has ended
  // the stream, unavailable when it breaks off.
  Result<std::optional<ServerEvent>> next(Duration wait);
  // The time since the last byte, heartbeats included.
  Duration idle_time() const;

 private:
  struct State;
  explicit EventReader(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace gpuyard::http
