#include "io/http/resolver.h"

#include <netdb.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"

namespace gpuyard::http {
namespace {

using LookupResult = Result<std::vector<Endpoint>>;

Error resolve_error(const std::string& host, int code) {
  return Error{Errc::unavailable,
               fmt::format("the name {} has no address: {}", host, ::gai_strerror(code))};
}

LookupResult query_addresses(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* first = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &wanted, &first);
  if (code != 0) return resolve_error(host, code);
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
  if (found.empty()) return resolve_error(host, EAI_NONAME);
  return found;
}

// getaddrinfo() has no deadline, so it runs on a thread that can be left behind. It ends by itself
// when the name service's own timeout, half a minute or so, is over. Shared with
// the thread, which may outlive the caller.
struct PendingLookup {
  Mutex mutex;
  ConditionVariable done;
  std::optional<LookupResult> result GUARDED_BY(mutex);
};

// One of the look-ups that may be under way; held by its thread.
class LookupSlot {
 public:
  LookupSlot() : slots_in_use_before_(slots_in_use.fetch_add(1)) {}
  ~LookupSlot() { --slots_in_use; }
  LookupSlot(const LookupSlot&) = delete;
  LookupSlot& operator=(const LookupSlot&) = delete;

  bool exceeds_limit() const { return slots_in_use_before_ >= kMaxLookups; }

 private:
  static inline std::atomic<std::size_t> slots_in_use = 0;  // in the process, as threads are
  std::size_t slots_in_use_before_;
};

Error lookup_error(const std::string& host, std::string_view why) {
  return Error{Errc::unavailable, fmt::format("cannot look up {}: {}", host, why)};
}

}  // namespace

LookupResult resolve(const std::string& host, std::uint16_t port, TimePoint deadline) {
  if (auto literal = query_addresses(host, port, AI_NUMERICHOST)) return literal;
  const Lookup by_system = [](const std::string& name, std::uint16_t its_port) {
    return query_addresses(name, its_port, AI_ADDRCONFIG);
  };
  return resolve_with(by_system, host, port, deadline);
}

LookupResult resolve_with(const Lookup& look_up, const std::string& host, std::uint16_t port,
                          TimePoint deadline) {
  auto slot = std::make_unique<LookupSlot>();
  if (slot->exceeds_limit()) {
    return lookup_error(
        host, fmt::format("{} name lookups are still waiting for an answer", kMaxLookups));
  }
  const auto pending = std::make_shared<PendingLookup>();
  try {
    std::thread([pending, look_up, host, port, slot = std::move(slot)]() mutable {
      auto result = look_up(host, port);
      slot.reset();
      const MutexLock lock(pending->mutex);
      pending->result = std::move(result);
      pending->done.notify_all();
    }).detach();
  } catch (const std::system_error& error) {  // too many threads
    return lookup_error(host, error.what());
  }
  const MutexLock lock(pending->mutex);
  pending->done.wait_for(pending->mutex, deadline - BootClock::now(),
                         [&]() REQUIRES(pending->mutex) { return pending->result.has_value(); });
  if (pending->result) return *std::move(pending->result);
  return Error{Errc::timed_out, fmt::format("the name {} was not resolved in time", host)};
}

}  // namespace gpuyard::http
