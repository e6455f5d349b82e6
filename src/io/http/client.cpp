// Beast's parser over a blocking socket.
#include "io/http/client.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "io/http/asio.h"
#include "io/http/client_socket.h"
#include "io/http/event_stream.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace gpuyard::http {
namespace {

namespace beast = boost::beast::http;
using Parser = beast::response_parser<beast::string_body>;

constexpr std::uint32_t kMostHeader = 64 * 1024;
constexpr int kMostInterim = 8;  // answers before the answer proper

// Hands what comes to the parser of the answer that it belongs to.
class Receiver {
 public:
  explicit Receiver(ClientSocket& socket) : socket_(socket) {}

  // Parses what one read brought, or the end of the connection.
  Result<void> step(Parser& parser, TimePoint deadline) {
    std::array<char, std::size_t{16} * 1024> space;
    const auto got = socket_.receive(space, deadline);
    if (!got) return got.error();
    if (*got == 0) return end(parser);
    pending_.append(space.data(), *got);
    return parse(parser);
  }

  // Parses what came already, behind another answer.
  Result<void> parse(Parser& parser) {
    if (pending_.empty()) return {};
    boost::beast::error_code error;
    const boost::asio::const_buffer bytes(pending_.data(), pending_.size());
    pending_.erase(0, parser.put(bytes, error));
    return verdict(error);
  }

  // Whether nothing has come behind the answer.
  bool has_read_all() const { return pending_.empty(); }

 private:
  Result<void> end(Parser& parser) {
    if (!parser.got_some()) return socket_.broken("the connection closed before the response");
    boost::beast::error_code error;
    parser.put_eof(error);
    return verdict(error);
  }

  Result<void> verdict(const boost::beast::error_code& error) const {
    if (error && error != beast::error::need_more) return socket_.broken(error.message());
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
enum class After { close, keep };

std::string render(const std::string& host, const ClientRequest& request, After after) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", name_of(request.method), request.target, host);
  if (after == After::close) out += "Connection: close\r\n";
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

Result<void> check(const ClientRequest& request) {
  if (!has_line_break(request)) return {};
  return Error{Errc::invalid,
               "the target and headers of a request must not contain line breaks or spaces"};
}

// Connects and sends the request.
template <class Server>
Result<ClientSocket> ask(const Server& server, const ClientRequest& request, TimePoint until) {
  if (auto right = check(request); !right) return std::move(right).error();
  auto socket = ClientSocket::connect(server, until);
  if (!socket) return socket;
  if (auto sent = socket->send(render(host_field(server), request, After::close), until); !sent) {
    return std::move(sent).error();
  }
  return socket;
}

void prepare(Parser& parser, const ClientRequest& request, std::size_t max_body) {
  parser.eager(true);
  parser.body_limit(max_body);
  parser.header_limit(kMostHeader);
  parser.skip(request.method == Method::head);
}

// 100 and 103, for example: the answer proper follows. After 101 nothing is HTTP any more.
bool is_interim(const ClientResponse& response) {
  return response.status / 100 == 1 && response.status != 101;
}

enum class Wanted { all, verdict };

struct Received {
  ClientResponse response;
  bool complete = false;  // and the server lets another request follow
};

// Receives the answer to a request that was sent.
Result<Received> receive(ClientSocket& socket, const ClientRequest& request, TimePoint until,
                         std::size_t max_body, Wanted wanted) {
  Receiver receiver(socket);
  for (int answers = 0; answers <= kMostInterim; ++answers) {
    Parser parser;
    prepare(parser, request, max_body);
    auto received = receiver.parse(parser);
    while (received && !parser.is_done()) received = receiver.step(parser, until);
    const bool said = wanted == Wanted::verdict && parser.is_header_done();
    if (!received && !said) return std::move(received).error();
    const bool complete = parser.is_done() && parser.keep_alive() && receiver.has_read_all();
    auto response = to_response(parser);
    if (!is_interim(response)) return Received{std::move(response), complete};
  }
  return socket.broken("interim responses without a final one");
}

template <class Server>
Result<ClientResponse> fetch_from(const Server& server, const ClientRequest& request,
                                  Duration deadline, std::size_t max_body, Wanted wanted) {
  const TimePoint until = BootClock::now() + deadline;
  auto socket = ask(server, request, until);
  if (!socket) return std::move(socket).error();
  auto answer = receive(*socket, request, until, max_body, wanted);
  if (!answer) return std::move(answer).error();
  return std::move(answer->response);
}

// One request over a carrier's connection, which is kept for the next if it can be.
Result<ClientResponse> fetch_over(std::unique_ptr<Line> line, const Endpoint& endpoint,
                                  const ClientRequest& request, Duration deadline,
                                  std::size_t max_body) {
  const TimePoint until = BootClock::now() + deadline;
  ClientSocket socket(endpoint, std::move(line));
  const std::string text = render(host_field(endpoint), request, After::keep);
  if (auto sent = socket.send(text, until); !sent) return std::move(sent).error();
  auto answer = receive(socket, request, until, max_body, Wanted::all);
  if (!answer) return std::move(answer).error();
  if (answer->complete) endpoint.carrier->keep(socket.release_line());
  return std::move(answer->response);
}

// The deadline is for the request alone: a login has the carrier's own.
Result<ClientResponse> fetch_carried(const Endpoint& endpoint, const ClientRequest& request,
                                     Duration deadline, std::size_t max_body) {
  if (auto right = check(request); !right) return std::move(right).error();
  if (auto kept = endpoint.carrier->take_kept()) {
    auto response = fetch_over(std::move(kept), endpoint, request, deadline, max_body);
    // The other side may have closed it just now. Only a request that changes nothing is made
    // again.
    const bool reads = request.method == Method::get || request.method == Method::head;
    if (response || !reads || response.error().code == Errc::timed_out) return response;
  }
  auto line = endpoint.carrier->open();
  if (!line) return std::move(line).error();
  return fetch_over(*std::move(line), endpoint, request, deadline, max_body);
}

}  // namespace

Result<ClientResponse> fetch(const Endpoint& endpoint, const ClientRequest& request,
                             Duration deadline, std::size_t max_body) {
  if (endpoint.carrier != nullptr) return fetch_carried(endpoint, request, deadline, max_body);
  if (endpoint.tls != nullptr) {
    return fetch_from(endpoint, with_token(request, endpoint), deadline, max_body, Wanted::all);
  }
  return fetch_from(endpoint, request, deadline, max_body, Wanted::all);
}

Result<ClientResponse> fetch(const Origin& origin, const ClientRequest& request, Duration deadline,
                             std::size_t max_body) {
  return fetch_from(origin, with_proxy(request, origin), deadline, max_body, Wanted::all);
}

Result<ClientResponse> fetch_verdict(const Origin& origin, const ClientRequest& request,
                                     Duration deadline, std::size_t max_body) {
  return fetch_from(origin, with_proxy(request, origin), deadline, max_body, Wanted::verdict);
}

Result<PresentedCertificate> look_at(const Origin& origin, Duration deadline) {
  return ClientSocket::look_at(origin, BootClock::now() + deadline);
}

struct EventReader::State {
  explicit State(ClientSocket connected) : socket(std::move(connected)) {}

  ClientSocket socket;
  Parser parser;
  Receiver receiver{socket};
  EventParser events;
  ClientResponse head;
  TimePoint heard;
};

Result<EventReader> EventReader::open(const Endpoint& endpoint, ClientRequest request,
                                      Duration deadline) {
  TimePoint until = BootClock::now() + deadline;
  request.headers.push_back({"Accept", std::string(kEventStream)});
  request = with_token(std::move(request), endpoint);
  auto socket = ask(endpoint, request, until);
  if (!socket) return std::move(socket).error();
  if (endpoint.carrier != nullptr) until = BootClock::now() + deadline;  // a login took its time
  auto state = std::make_unique<State>(*std::move(socket));
  prepare(state->parser, request, kDefaultMaxBody);
  const auto streams = [&] {
    return state->parser.is_header_done() && state->parser.get().result_int() == 200;
  };
  while (!state->parser.is_done() && !streams()) {
    if (auto got = state->receiver.step(state->parser, until); !got) return std::move(got).error();
  }
  state->parser.body_limit(boost::none);  // of all events together
  state->heard = BootClock::now();
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

Duration EventReader::silence() const {
  return BootClock::now() - state_->heard;
}

Result<std::optional<ServerEvent>> EventReader::next(Duration wait) {
  const TimePoint until = BootClock::now() + wait;
  for (;;) {
    state_->events.feed(std::exchange(state_->parser.get().body(), {}));
    if (auto event = state_->events.take()) return event;
    if (state_->events.overflowed()) return state_->socket.broken("an event is too long");
    if (state_->parser.is_done()) return Error{Errc::not_found, "the stream has ended"};
    const auto got = state_->receiver.step(state_->parser, until);
    if (!got && got.error().code == Errc::timed_out) return std::optional<ServerEvent>();
    if (!got) return got.error();
    state_->heard = BootClock::now();
  }
}

}  // namespace gpuyard::http
