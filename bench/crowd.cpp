// The part of `./yard bench`'s row about fairness with many users at once: claims that wait,
// clients that ask for the queue again and again, and streams of power. Half of them use the Unix
// socket, each as its own user, half use TCP, each from its own address. Beside them one client
// asks for the load; prints how long that client waited, as JSON. Must run as root.
//
//   bench_crowd SOCKET PORT PARTIES CLAIMS CLIENTS STREAMS SECONDS
//
// CLAIMS is for each user; CLIENTS and STREAMS are for each of the two listeners.
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "io/http/endpoint.h"
#include "round_trips.h"

namespace gpuyard::bench {
namespace {

constexpr uid_t kFirstUser = 20'000;
constexpr uid_t kProbeUser = 30'000;  // the user that asks for the load

struct LoadOptions {
  std::string socket;
  std::uint16_t port = 0;
  int parties = 1;
  int claims = 0;
  int clients = 0;
  int streams = 0;
  int seconds = 1;
};

// While this object lives, its thread connects as that user.
class ScopedUid {
 public:
  explicit ScopedUid(uid_t uid) {
    if (::syscall(SYS_setresuid, -1, uid, -1) != 0) fail("only root can be other users");
  }
  ~ScopedUid() { ::syscall(SYS_setresuid, -1, 0, -1); }
  ScopedUid(const ScopedUid&) = delete;
  ScopedUid& operator=(const ScopedUid&) = delete;
};

UniqueFd connect_to(const http::Endpoint& endpoint, int user_index) {
  const auto address = http::to_socket_address(endpoint);
  if (!address) fail(address.error().message);
  UniqueFd fd(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (endpoint.kind == http::Endpoint::Kind::tcp) {
    const auto own =
        http::to_socket_address(http::Endpoint::tcp(fmt::format("127.0.1.{}", user_index + 1), 0));
    if (::bind(fd.get(), own->get(), own->length) != 0) fail("an address cannot be had");
  }
  if (::connect(fd.get(), address->get(), address->length) != 0) fail("a client cannot connect");
  return fd;
}

void send_all(const UniqueFd& fd, std::string_view text) {
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(text.size())) {
    fail("a request could not be sent");
  }
}

// One client of the crowd. Counts what it receives, and finds the end of each response.
class Client {
 public:
  Client(UniqueFd fd, std::string request) : fd_(std::move(fd)), request_(std::move(request)) {
    send_all(fd_, request_);
  }

  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t answers() const { return answers_; }
  bool refused() const { return refused_; }

  // False: the connection has ended.
  bool read(std::string& buffer) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) return false;
    bytes_ += static_cast<std::uint64_t>(got);
    take({buffer.data(), static_cast<std::size_t>(got)});
    return !refused_;
  }

 private:
  void take(std::string_view text) {
    if (body_left_ == 0 && !streams_) text = take_head(text);
    body_left_ -= std::min(body_left_, text.size());
    if (streams_ || !began_ || body_left_ > 0) return;
    began_ = false;
    ++answers_;
    send_all(fd_, request_);
  }
  // Returns the text after the head.
  std::string_view take_head(std::string_view text) {
    head_ += text;
    const std::size_t end = head_.find("\r\n\r\n");
    if (end == head_.npos) return {};
    refused_ = !head_.starts_with("HTTP/1.1 200 ");
    streams_ = head_.find("Transfer-Encoding: chunked") < end;
    constexpr std::string_view kLength = "Content-Length: ";
    const std::size_t length = head_.find(kLength);
    if (length < end)
      body_left_ = std::strtoul(head_.c_str() + length + kLength.size(), nullptr, 10);
    began_ = true;
    const std::size_t of_body = head_.size() - (end + 4);
    head_.clear();
    return text.substr(text.size() - of_body);
  }

  UniqueFd fd_;
  std::string request_;
  std::string head_;
  std::size_t body_left_ = 0;
  bool began_ = false;
  bool streams_ = false;
  bool refused_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t answers_ = 0;
};

class Crowd {
 public:
  explicit Crowd(const LoadOptions& options) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    const auto on_unix = http::Endpoint::unix_socket(options.socket);
    const auto on_tcp = http::Endpoint::tcp("127.0.0.1", options.port);
    for (int i = 0; i < options.streams + options.clients; ++i) {
      const int user_index = i % options.parties;
      const std::string request = request_of(
          i < options.streams ? "GET /api/gpu/stream/power?hz=100" : "GET /api/gpu/queue");
      const ScopedUid user(kFirstUser + static_cast<uid_t>(user_index));
      add({connect_to(on_unix, user_index), request});
      add({connect_to(on_tcp, user_index), request});
    }
  }

  void run_until(TimePoint end) {
    std::array<epoll_event, 256> events{};
    while (BootClock::now() < end) {
      const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), 10);
      for (int i = 0; i < ready; ++i) {
        auto& client = *static_cast<Client*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (!client.read(room_)) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.fd(), nullptr);
      }
    }
  }

  std::uint64_t sum(std::uint64_t (Client::*of)() const) const {
    std::uint64_t all = 0;
    for (const Client& client : clients_) all += (client.*of)();
    return all;
  }
  auto refused() const { return std::ranges::count_if(clients_, &Client::refused); }

 private:
  void add(Client client) {
    clients_.push_back(std::move(client));
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &clients_.back()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clients_.back().fd(), &event);
  }

  UniqueFd epoll_;
  std::deque<Client> clients_;
  std::string room_ = std::string(std::size_t{256} << 10U, '\0');
};

void make_claims(const LoadOptions& options) {
  const std::string claim =
      request_of("POST /api/gpu/leases",
                 R"({"binding":"detached","ttl_s":3600,"answer_within_s":0,"gpus":2})");
  for (int user_index = 0; user_index < options.parties; ++user_index) {
    const ScopedUid user(kFirstUser + static_cast<uid_t>(user_index));
    const Connection server(options.socket);
    for (int i = 0; i < options.claims; ++i) {
      const std::string answer = request_until_accepted(server, claim);
      if (!answer.starts_with("HTTP/1.1 200 ")) fail(answer);
    }
  }
}

// The client that asks for the load every two milliseconds, with a priority that keeps the
// scheduler from delaying it.
class LatencyProbe {
 public:
  explicit LatencyProbe(const LoadOptions& options) : thread_([this, options] { run(options); }) {}
  RoundTrips end() {
    over_ = true;
    thread_.join();
    return std::move(waits_);
  }

 private:
  void run(const LoadOptions& options) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), -20);
    const ScopedUid user(kProbeUser);
    const Connection server(options.socket);
    const std::string request = request_of("GET /api/gpu/load");
    while (!over_) {
      waits_.add([&] { return server.request(request).starts_with("HTTP/1.1 200 "); });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::atomic<bool> over_ = false;
  RoundTrips waits_;
  std::thread thread_;
};

int measure(const LoadOptions& options) {
  make_claims(options);
  Crowd crowd(options);
  constexpr Duration kSettleTime = std::chrono::seconds(2);
  crowd.run_until(BootClock::now() + kSettleTime);
  const std::uint64_t bytes_before = crowd.sum(&Client::bytes);
  const std::uint64_t answers_before = crowd.sum(&Client::answers);
  LatencyProbe probe(options);
  crowd.run_until(BootClock::now() + std::chrono::seconds(options.seconds));
  const RoundTrips load = probe.end();
  fmt::print(
      R"({{"load":{},"bytes_per_s":{},"queues_per_s":{},"refused":{}}})"
      "\n",
      load.text(),
      (crowd.sum(&Client::bytes) - bytes_before) / static_cast<std::uint64_t>(options.seconds),
      (crowd.sum(&Client::answers) - answers_before) / static_cast<std::uint64_t>(options.seconds),
      crowd.refused());
  return 0;
}

}  // namespace
}  // namespace gpuyard::bench

int main(int argc, char** argv) {
  using namespace gpuyard::bench;
  if (argc != 8) fail("usage: bench_crowd SOCKET PORT PARTIES CLAIMS CLIENTS STREAMS SECONDS");
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const auto number = [&](int place) { return std::atoi(argv[place]); };
  return measure({argv[1], static_cast<std::uint16_t>(number(2)), number(3), number(4), number(5),
                  number(6), number(7)});
}
