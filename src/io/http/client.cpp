// Beast's parser over a blocking socket.
#include "io/http/client.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "io/http/asio.h"
#include "io/http/client_socket.h"
#include "io/http/event_parser.h"
#include "io/http/event_stream.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace gpuyard::http {
namespace {

namespace beast = boost::beast::http;
using Parser = beast::response_parser<beast::string_body>;

constexpr std::uint32_t kMaxHeaderBytes = 64 * 1024;
constexpr int kMaxInterimResponses = 8;  // answers before the answer proper

// Passes received bytes to the parser of the answer that they belong to.
class Receiver {
 public:
  explicit Receiver(ClientSocket& socket) : socket_(socket) {}

  // Parses the bytes of one read, or the end of the connection.
  Result<void> receive_some(Parser& parser, TimePoint deadline) {
    std::array<char, std::size_t{16} * 1024> space;
    const auto got = GPUYARD_TRY(socket_.receive(space, deadline));
    if (got == 0) return finish(parser);
    pending_.append(space.data(), got);
    return parse(parser);
  }

  // Parses the bytes that were received behind another answer.
  Result<void> parse(Parser& parser) {
    if (pending_.empty()) return {};
    boost::beast::error_code error;
    const boost::asio::const_buffer bytes(pending_.data(), pending_.size());
    pending_.erase(0, parser.put(bytes, error));
    return check_parse(error);
  }

  // Whether nothing has come behind the answer.
  bool has_read_all() const { return pending_.empty(); }

 private:
  Result<void> finish(Parser& parser) {
    if (!parser.got_some())
      return socket_.invalid_response_error("the connection closed before the response");
    boost::beast::error_code error;
    parser.put_eof(error);
    return check_parse(error);
  }

  Result<void> check_parse(const boost::beast::error_code& error) const {
    if (error && error != beast::error::need_more)
      return socket_.invalid_response_error(error.message());
    return {};
  }

  ClientSocket& socket_;
  std::string pending_;
};

std::string host_field(const Endpoint& endpoint) {
  if (endpoint.kind == Endpoint::Kind::tls) return endpoint.tls->origin.text();
  return endpoint.kind == Endpoint::Kind::tcp ? endpoint.text() : "localhost";
}
std::string host_field(const Origin& origin) {
  return origin.text();
}

ClientRequest with_token(ClientRequest request, const Endpoint& endpoint) {
  if (endpoint.tls != nullptr && !endpoint.tls->token.empty()) {
    request.headers.push_back({"Authorization", "Bearer " + endpoint.tls->token});
  }
  return request;
}

// A proxy reads a request in plain text, and learns from the target where it goes.
ClientRequest with_proxy(ClientRequest request, const Origin& origin) {
  if (!origin.proxy || origin.tls) return request;
  request.target.insert(0, "http://" + origin.text());
  if (!origin.proxy->authorization.empty()) {
    request.headers.push_back({"Proxy-Authorization", origin.proxy->authorization});
  }
  return request;
}

// Whether the connection is to stay open for another request.
enum class ConnectionReuse { close, keep };

std::string render(const std::string& host, const ClientRequest& request, ConnectionReuse reuse) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", name_of(request.method), request.target, host);
  if (reuse == ConnectionReuse::close) out += "Connection: close\r\n";
  for (const Header& header : request.headers) {
    out += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  const bool sends_body = !request.body.empty() || request.method == Method::post ||
                          request.method == Method::put || request.method == Method::patch;
  if (!request.body.empty()) out += fmt::format("Content-Type: {}\r\n", request.content_type);
  if (sends_body) out += fmt::format("Content-Length: {}\r\n", request.body.size());
  return out + "\r\n" + request.body;
}

bool has_line_break(const ClientRequest& request) {
  const auto breaks = [](std::string_view text) { return text.find_first_of("\r\n") != text.npos; };
  const bool in_headers = std::ranges::any_of(request.headers, [&](const Header& header) {
    return breaks(header.name) || breaks(header.value);
  });
  return in_headers || breaks(request.content_type) ||
         request.target.find_first_of(" \r\n") != request.target.npos;
}

ClientResponse to_response(Parser& parser) {
  ClientResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    response.headers.push_back(
        Header{std::string(field.name_string().data(), field.name_string().size()),
               std::string(field.value().data(), field.value().size())});
  }
  response.body = std::move(parser.get().body());
  return response;
}

Result<void> check_request(const ClientRequest& request) {
  if (!has_line_break(request)) return {};
  return Error{Errc::invalid,
               "the target and headers of a request must not contain line breaks or spaces"};
}

// Connects and sends the request.
template <class Server>
Result<ClientSocket> send_request(const Server& server, const ClientRequest& request,
                                  TimePoint until) {
  GPUYARD_TRY(check_request(request));
  auto socket = ClientSocket::connect(server, until);
  if (!socket) return socket;
  GPUYARD_TRY(socket->send(render(host_field(server), request, ConnectionReuse::close), until));
  return socket;
}

void prepare(Parser& parser, const ClientRequest& request, std::size_t max_body) {
  parser.eager(true);
  parser.body_limit(max_body);
  parser.header_limit(kMaxHeaderBytes);
  parser.skip(request.method == Method::head);
}

// 100 and 103, for example: the answer proper follows. After 101 nothing is HTTP any more.
bool is_interim(const ClientResponse& response) {
  return response.status / 100 == 1 && response.status != 101;
}

enum class ResponseScope { all, status_only };

struct ReceivedResponse {
  ClientResponse response;
  bool complete = false;  // and the server lets another request follow
};

// Receives the answer to a request that was sent.
Result<ReceivedResponse> receive(ClientSocket& socket, const ClientRequest& request,
                                 TimePoint until, std::size_t max_body, ResponseScope wanted) {
  Receiver receiver(socket);
  for (int interim_count = 0; interim_count <= kMaxInterimResponses; ++interim_count) {
    Parser parser;
    prepare(parser, request, max_body);
    auto received = receiver.parse(parser);
    while (received && !parser.is_done()) received = receiver.receive_some(parser, until);
    const bool has_status = wanted == ResponseScope::status_only && parser.is_header_done();
    if (!received && !has_status) return std::move(received).error();
    const bool complete = parser.is_done() && parser.keep_alive() && receiver.has_read_all();
    auto response = to_response(parser);
    if (!is_interim(response)) return ReceivedResponse{std::move(response), complete};
  }
  return socket.invalid_response_error("interim responses without a final one");
}

template <class Server>
Result<ClientResponse> fetch_from(const Server& server, const ClientRequest& request,
                                  Duration timeout, std::size_t max_body, ResponseScope wanted) {
  const TimePoint until = BootClock::now() + timeout;
  auto socket = GPUYARD_TRY(send_request(server, request, until));
  auto received = GPUYARD_TRY(receive(socket, request, until, max_body, wanted));
  return std::move(received.response);
}

// One request over a tunnel's connection, which is kept for the next if it can be.
Result<ClientResponse> fetch_on_tunnel(std::unique_ptr<TunnelConnection> connection,
                                       const Endpoint& endpoint, const ClientRequest& request,
                                       Duration timeout, std::size_t max_body) {
  const TimePoint until = BootClock::now() + timeout;
  ClientSocket socket(endpoint, std::move(connection));
  const std::string text = render(host_field(endpoint), request, ConnectionReuse::keep);
  GPUYARD_TRY(socket.send(text, until));
  auto received = receive(socket, request, until, max_body, ResponseScope::all);
  if (!received) return std::move(received).error();
  if (received->complete) endpoint.tunnel->store_idle(socket.release_tunnel());
  return std::move(received->response);
}

// The deadline is for the request alone: a login has the tunnel's own.
Result<ClientResponse> fetch_through_tunnel(const Endpoint& endpoint, const ClientRequest& request,
                                            Duration timeout, std::size_t max_body) {
  GPUYARD_TRY(check_request(request));
  if (auto idle = endpoint.tunnel->take_idle()) {
    auto response = fetch_on_tunnel(std::move(idle), endpoint, request, timeout, max_body);
    // The other side may have closed it just now. Only a request that changes nothing is made
    // again.
    const bool reads = request.method == Method::get || request.method == Method::head;
    if (response || !reads || response.error().code == Errc::timed_out) return response;
  }
  auto connection = GPUYARD_TRY(endpoint.tunnel->open());
  return fetch_on_tunnel(std::move(connection), endpoint, request, timeout, max_body);
}

}  // namespace

Result<ClientResponse> fetch(const Endpoint& endpoint, const ClientRequest& request,
                             Duration timeout, std::size_t max_body) {
  if (endpoint.tunnel != nullptr) return fetch_through_tunnel(endpoint, request, timeout, max_body);
  if (endpoint.tls != nullptr) {
    return fetch_from(endpoint, with_token(request, endpoint), timeout, max_body,
                      ResponseScope::all);
  }
  return fetch_from(endpoint, request, timeout, max_body, ResponseScope::all);
}

Result<ClientResponse> fetch(const Origin& origin, const ClientRequest& request, Duration timeout,
                             std::size_t max_body) {
  return fetch_from(origin, with_proxy(request, origin), timeout, max_body, ResponseScope::all);
}

Result<ClientResponse> fetch_status(const Origin& origin, const ClientRequest& request,
                                    Duration timeout, std::size_t max_body) {
  return fetch_from(origin, with_proxy(request, origin), timeout, max_body,
                    ResponseScope::status_only);
}

Result<PresentedCertificate> fetch_certificate(const Origin& origin, Duration timeout) {
  return ClientSocket::fetch_certificate(origin, BootClock::now() + timeout);
}

struct EventReader::State {
  explicit State(ClientSocket connected) : socket(std::move(connected)) {}

  ClientSocket socket;
  Parser parser;
  Receiver receiver{socket};
  EventParser events;
  ClientResponse head;
  TimePoint last_byte_at;
};

Result<EventReader> EventReader::open(const Endpoint& endpoint, ClientRequest request,
                                      Duration timeout) {
  TimePoint until = BootClock::now() + timeout;
  request.headers.push_back({"Accept", std::string(kEventStream)});
  request = with_token(std::move(request), endpoint);
  auto socket = GPUYARD_TRY(send_request(endpoint, request, until));
  if (endpoint.tunnel != nullptr) until = BootClock::now() + timeout;  // a login took its time
  auto state = std::make_unique<State>(std::move(socket));
  prepare(state->parser, request, kDefaultMaxBodyBytes);
  const auto streams = [&] {
    return state->parser.is_header_done() && state->parser.get().result_int() == 200;
  };
  while (!state->parser.is_done() && !streams()) {
    GPUYARD_TRY(state->receiver.receive_some(state->parser, until));
  }
  state->parser.body_limit(boost::none);  // of all events together
  state->last_byte_at = BootClock::now();
  if (!streams()) state->head = to_response(state->parser);
  if (streams()) state->head.status = 200;
  return EventReader(std::move(state));
}

EventReader::EventReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventReader::EventReader(EventReader&&) noexcept = default;
EventReader& EventReader::operator=(EventReader&&) noexcept = default;
EventReader::~EventReader() = default;

const ClientResponse& EventReader::response() const {
  return state_->head;
}

Duration EventReader::idle_time() const {
  return BootClock::now() - state_->last_byte_at;
}

Result<std::optional<ServerEvent>> EventReader::next(Duration wait) {
  const TimePoint until = BootClock::now() + wait;
  for (;;) {
    state_->events.feed(std::exchange(state_->parser.get().body(), {}));
    if (auto event = state_->events.take()) return event;
    if (state_->events.has_overflowed())
      return state_->socket.invalid_response_error("an event is too long");
    if (state_->parser.is_done()) return Error{Errc::not_found, "the stream has ended"};
    const auto got = state_->receiver.receive_some(state_->parser, until);
    if (!got && got.error().code == Errc::timed_out) return std::optional<ServerEvent>();
    if (!got) return got.error();
    state_->last_byte_at = BootClock::now();
  }
}

}  // namespace gpuyard::http
