#include "round_trips.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "io/http/endpoint.h"

namespace gpuyard::bench {

void fail(const std::string& why) {
  std::fputs(("bench: " + why + "\n").c_str(), stderr);
  std::exit(1);
}

void RoundTrips::add(const std::function<bool()>& once, bool counted) {
  const TimePoint began = BootClock::now();
  if (!once()) fail("a round failed");
  const Duration took = BootClock::now() - began;
  if (counted) taken_us_.push_back(std::chrono::duration<double, std::micro>(took).count());
}

void RoundTrips::add(const RoundTrips& others) {
  taken_us_.insert(taken_us_.end(), others.taken_us_.begin(), others.taken_us_.end());
}

std::string RoundTrips::text() const {
  if (taken_us_.empty()) fail("no round was counted");
  std::vector<double> sorted = taken_us_;
  std::ranges::sort(sorted);
  const auto at = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  return fmt::format(R"({{"rounds":{},"p50_us":{:.1f},"p99_us":{:.1f},"longest_us":{:.1f}}})",
                     sorted.size(), at(0.5), at(0.99), sorted.back());
}

Connection::Connection(const std::string& path)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(path));
  if (!address) fail(address.error().message);
  if (::connect(fd_.get(), address->get(), address->length) != 0)
    fail("nothing is listening at " + path);
}

std::string Connection::request(const std::string& request) const {
  const ssize_t sent = ::send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) fail("a request could not be sent");
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
    if (got <= 0) fail("no answer came");
    text.append(chunk.data(), static_cast<std::size_t>(got));
    const std::size_t end = text.find("\r\n\r\n");
    if (end == text.npos) continue;
    std::string head = text.substr(0, end);
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
    constexpr std::string_view kLength = "content-length: ";
    const std::size_t length = head.find(kLength);
    if (length == head.npos) fail("an answer has no Content-Length");
    const std::size_t body = std::strtoul(head.c_str() + length + kLength.size(), nullptr, 10);
    if (text.size() >= end + 4 + body) return text;
  }
}

std::string request_until_accepted(const Connection& server, const std::string& request) {
  constexpr int kMaxTries = 500;
  for (int i = 0; i < kMaxTries; ++i) {
    std::string answer = server.request(request);
    if (!answer.starts_with("HTTP/1.1 503 ")) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  fail("the daemon does not get ready: " + server.request(request));
}

std::string request_of(std::string_view line, std::string_view body) {
  return fmt::format("{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", line,
                     body.size(), body);
}

}  // namespace gpuyard::bench
