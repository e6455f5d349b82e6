// Plain poll(2) and Beast's parser: one request needs no event loop.
#include "http/client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "http/asio.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace gpuyard::http {
namespace {

namespace beast = boost::beast::http;
using Parser = beast::response_parser<beast::string_body>;

// One attempt at one request: a socket, and until when.
class Exchange {
 public:
  Exchange(const Endpoint& endpoint, Duration deadline)
      : where_(endpoint.text()), deadline_(BootClock::now() + deadline) {}

  Result<void> connect(const Endpoint& endpoint);
  Result<void> send(std::string_view bytes);
  // Feeds `parser` until it is done.
  Result<void> receive(Parser& parser);

 private:
  Result<void> wait(short events);
  Result<void> finish_connecting();
  Error fault(int code) const;
  Error broken(std::string_view why) const;

  std::string where_;
  TimePoint deadline_;
  UniqueFd socket_;
};

Error Exchange::fault(int code) const {
  const std::string why = std::generic_category().message(code);
  if (code == EACCES || code == EPERM) {
    return Error{Errc::denied, fmt::format("may not connect to {}: {}", where_, why)};
  }
  return Error{Errc::unavailable, fmt::format("nothing answers at {}: {}", where_, why)};
}

Error Exchange::broken(std::string_view why) const {
  return Error{Errc::unavailable, fmt::format("the answer of {} is unusable: {}", where_, why)};
}

Result<void> Exchange::wait(short events) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - BootClock::now());
    pollfd entry{socket_.get(), events, 0};
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
    const int ready = left.count() > 0 ? ::poll(&entry, 1, timeout) : 0;
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fault(errno);
    if (BootClock::now() >= deadline_) {
      return Error{Errc::timed_out, fmt::format("no answer from {} in time", where_)};
    }
  }
}

Result<void> Exchange::connect(const Endpoint& endpoint) {
  const auto address = to_socket_address(endpoint);
  if (!address) return address.error();
  socket_.reset(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return fault(errno);
  while (::connect(socket_.get(), address->get(), address->length) != 0) {
    if (errno == EINPROGRESS) return finish_connecting();
    if (errno != EAGAIN && errno != EINTR) return fault(errno);
    // A Unix listener's queue is full, and there is nothing to poll for that.
    constexpr int kRetryMilliseconds = 5;
    ::poll(nullptr, 0, kRetryMilliseconds);
    if (BootClock::now() >= deadline_) {
      return Error{Errc::timed_out, fmt::format("{} does not accept connections", where_)};
    }
  }
  return {};
}

Result<void> Exchange::finish_connecting() {
  if (auto connected = wait(POLLOUT); !connected) return connected;
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  if (code != 0) return fault(code);
  return {};
}

Result<void> Exchange::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto writable = wait(POLLOUT); !writable) return writable;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return {};  // refused early; why is what receive() reads
    } else if (errno != EINTR) {
      return fault(errno);
    }
  }
  return {};
}

Result<void> Exchange::receive(Parser& parser) {
  std::string pending;
  std::array<char, std::size_t{16} * 1024> chunk;
  while (!parser.is_done()) {
    if (auto readable = wait(POLLIN); !readable) return readable;
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return broken(std::generic_category().message(errno));
    boost::beast::error_code error;
    if (got == 0) {
      if (!parser.got_some()) return broken("the connection ended before it");
      parser.put_eof(error);
    } else {
      pending.append(chunk.data(), static_cast<std::size_t>(got));
      const boost::asio::const_buffer bytes(pending.data(), pending.size());
      pending.erase(0, parser.put(bytes, error));
    }
    if (error && error != beast::error::need_more) return broken(error.message());
  }
  return {};
}

std::string render(const Endpoint& endpoint, const ClientRequest& request) {
  const bool tcp = endpoint.kind == Endpoint::Kind::tcp;
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", name_of(request.method),
                  request.target, tcp ? endpoint.text() : "localhost");
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

}  // namespace

Result<ClientResponse> fetch(const Endpoint& endpoint, const ClientRequest& request,
                             Duration deadline, std::size_t max_body) {
  if (has_line_break(request)) {
    return Error{Errc::invalid, "a request's target and fields have no line breaks or spaces"};
  }
  Exchange exchange(endpoint, deadline);
  if (auto connected = exchange.connect(endpoint); !connected) return std::move(connected).error();
  if (auto sent = exchange.send(render(endpoint, request)); !sent) return std::move(sent).error();
  Parser parser;
  parser.eager(true);
  parser.body_limit(max_body);
  parser.header_limit(64 * 1024);
  parser.skip(request.method == Method::head);
  if (auto received = exchange.receive(parser); !received) return std::move(received).error();
  return to_response(parser);
}

}  // namespace gpuyard::http
