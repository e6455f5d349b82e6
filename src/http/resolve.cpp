// getaddrinfo() has no deadline, so it runs on a thread that can be left behind. It ends by itself
// when the name service's own patience, half a minute or so, is over.
#include "http/resolve.h"

#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace gpuyard::http {
namespace {

using Answer = Result<std::vector<Endpoint>>;

Error unresolved(const std::string& host, int code) {
  return Error{Errc::unavailable,
               fmt::format("the name {} has no address: {}", host, ::gai_strerror(code))};
}

Answer look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* first = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &wanted, &first);
  if (code != 0) return unresolved(host, code);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(first, &::freeaddrinfo);
  std::vector<Endpoint> found;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    SocketAddress address;
    if (one->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
    found.push_back(from_socket_address(address));
    found.back().port = port;
  }
  if (found.empty()) return unresolved(host, EAI_NONAME);
  return found;
}

// Shared with the thread, which may outlive the one who asked.
struct Question {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Answer> answer;
};

}  // namespace

Answer resolve(const std::string& host, std::uint16_t port, TimePoint deadline) {
  if (auto literal = look_up(host, port, AI_NUMERICHOST)) return literal;
  const auto question = std::make_shared<Question>();
  try {
    std::thread([question, host, port] {
      auto answer = look_up(host, port, AI_ADDRCONFIG);
      const std::lock_guard lock(question->mutex);
      question->answer = std::move(answer);
      question->answered.notify_all();
    }).detach();
  } catch (const std::system_error& error) {  // too many threads
    return Error{Errc::unavailable, fmt::format("cannot look up {}: {}", host, error.what())};
  }
  std::unique_lock lock(question->mutex);
  question->answered.wait_for(lock, deadline - BootClock::now(),
                              [&] { return question->answer.has_value(); });
  if (question->answer) return *std::move(question->answer);
  return Error{Errc::timed_out, fmt::format("the name {} was not resolved in time", host)};
}

}  // namespace gpuyard::http
