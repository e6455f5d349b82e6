// The parts of `./yard bench`'s row about control. Each prints the times of one round trip, in
// microseconds, as JSON with the 50th and the 99th percentile.
//
//   bench_control setter LIBRARY GPU ROUNDS      NVML's setter of a power limit, called directly
//   bench_control http SOCKET ROUNDS ONE OTHER   requests in turn over one connection; "POST /a?b"
//   bench_control hop ROUNDS                     a message to a thread of another process, and back
//   bench_control disk DIRECTORY ROUNDS          4 KiB in a file, until they are on the disk
//   bench_control echo SOCKET                    serves: our HTTP server, answering at once
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "gpu/nvml/api.h"
#include "io/http/loop.h"
#include "io/http/server.h"
#include "round_trips.h"

namespace gpuyard {
namespace {

using bench::fail;

constexpr int kWarmUp = 50;
constexpr unsigned kLowMilliwatts = 300'000;
constexpr unsigned kHighMilliwatts = 310'000;

// Times `once(round)`, which returns whether it succeeded.
int measure(int rounds, const std::function<bool(int)>& once) {
  bench::RoundTrips taken;
  for (int round = -kWarmUp; round < rounds; ++round) {
    taken.add([&] { return once(round); }, round >= 0);
  }
  std::puts(taken.text().c_str());
  return 0;
}

int setter(const std::string& library, unsigned index, int rounds) {
  const auto loaded = nvml::load_library(library);
  if (!loaded) fail(loaded.error().message);
  const nvml::Api& api = loaded->api;
  nvml::DeviceHandle gpu{};
  if (api.init() != 0 || api.handle_by_index(index, &gpu) != 0) fail("no GPU in " + library);
  return measure(rounds, [&](int round) {
    return api.set_power_limit(gpu, round % 2 == 0 ? kLowMilliwatts : kHighMilliwatts) == 0;
  });
}

int http_requests(const std::string& path, int rounds, const std::string& one,
                  const std::string& other) {
  const bench::Connection server(path);
  const std::string first = bench::request_of(one);
  const std::string second = bench::request_of(other);
  return measure(rounds, [&](int round) {
    const std::string answer = server.request(round % 2 == 0 ? first : second);
    if (!answer.starts_with("HTTP/1.1 200 ")) fail(answer.substr(answer.find("\r\n\r\n") + 4));
    return true;
  });
}

// The other end of a hop: hands each message to a thread, which answers.
void answer_on_thread(int fd) {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<std::string> message;
  const std::jthread thread([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex);
      came.wait_for(lock, std::chrono::milliseconds(100), [&] { return message.has_value(); });
      if (!message) continue;
      const std::string answer = *std::exchange(message, std::nullopt);
      lock.unlock();
      ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  });
  std::array<char, 1024> buffer{};
  for (ssize_t got; (got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    const std::lock_guard lock(mutex);
    message.emplace(buffer.data(), static_cast<std::size_t>(got));
    came.notify_one();
  }
}

int hop(int rounds) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("no sockets");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    answer_on_thread(ends[1]);
    std::_Exit(0);
  }
  ::close(ends[1]);
  const std::string message(200, 'x');
  std::array<char, 1024> buffer{};
  const int done = measure(rounds, [&](int) {
    return ::send(ends[0], message.data(), message.size(), MSG_NOSIGNAL) > 0 &&
           ::recv(ends[0], buffer.data(), buffer.size(), 0) > 0;
  });
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return done;
}

int disk(const std::string& directory, int rounds) {
  const std::string path = directory + "/bench";
  const UniqueFd fd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  constexpr int kPages = 1024;
  const std::string page(4096, 'x');
  const auto put = [&](int number) {
    const auto at = static_cast<off_t>(page.size()) * ((number + kPages) % kPages);
    return ::pwrite(fd.get(), page.data(), page.size(), at) > 0;
  };
  for (int number = 0; number < kPages; ++number) {
    if (!put(number)) fail("no room in " + directory);
  }
  ::fsync(fd.get());
  const int done =
      measure(rounds, [&](int round) { return put(round) && ::fdatasync(fd.get()) == 0; });
  ::unlink(path.c_str());
  return done;
}

int echo(const std::string& path) {
  http::IoLoop loop;
  http::Server server(
      loop, [](const http::Request&, http::Reply reply) { reply({200, "", std::string()}); });
  if (const auto done = server.listen_unix(path); !done) fail(done.error().message);
  const Subscription signals = loop.watch_signals({SIGTERM}, [&](int) { loop.stop(); });
  loop.run();
  return 0;
}

int run(const std::vector<std::string>& words) {
  const auto number = [](const std::string& text) { return std::atoi(text.c_str()); };
  if (words.size() == 4 && words[0] == "setter") {
    return setter(words[1], static_cast<unsigned>(number(words[2])), number(words[3]));
  }
  if (words.size() == 5 && words[0] == "http") {
    return http_requests(words[1], number(words[2]), words[3], words[4]);
  }
  if (words.size() == 2 && words[0] == "hop") return hop(number(words[1]));
  if (words.size() == 3 && words[0] == "disk") return disk(words[1], number(words[2]));
  if (words.size() == 2 && words[0] == "echo") return echo(words[1]);
  fail("see the first lines of bench/control.cpp");
}

}  // namespace
}  // namespace gpuyard

int main(int argc, char** argv) {
  return gpuyard::run({argv + 1, argv + argc});
}
