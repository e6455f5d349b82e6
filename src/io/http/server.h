// Listens on TCP and Unix sockets and turns what strangers send into calls of one handler. Knows
// no route, no authority and no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/limits.h"
#include "http/loop.h"
#include "http/message.h"

namespace gpuyard::http {

struct Counters {
  std::uint64_t accepted = 0;  // connections
  std::uint64_t refused = 0;   // connections over a listener's limit
  std::uint64_t active = 0;    // connections now
  std::uint64_t requests = 0;  // complete ones, handed to the handler
  std::uint64_t streams = 0;   // responses without an end, now
};

struct Bound {
  std::string address;
  std::uint16_t port = 0;
};

// Lives on the loop's thread, and the loop outlives it. Destroying it closes every connection;
// a Reply that is still out does nothing then.
class Server {
 public:
  Server(IoLoop& loop, Handler handler, Limits limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Names that a Host field on TCP may carry besides localhost, loopback addresses and the address
  // that was connected to; all others get 421, so that no web page can reach us by DNS rebinding.
  void allow_hosts(std::vector<std::string> names);

  // Of whose requests the peer's process is asked for: a handle of it takes a descriptor for as
  // long as the connection is open. Of all, unless this is said.
  void ask_process_of(std::function<bool(const Request&)> wants_process);

  // Who is behind a user, where several share what one may have; and for whom places are kept: root
  // and our own user, unless this is said.
  void share_by(std::function<uid_t(uid_t)> person,
                std::function<bool(const Peer&)> privileged = nullptr);

  // A literal address; port 0 picks a free one. Errc::conflict if another program has it.
  Result<Bound> listen_tcp(const std::string& address, std::uint16_t port);

  // Appears at `path` already listening and with `mode`. A socket file that nobody answers is
  // replaced; Errc::conflict if somebody does, or if the file is no socket. The file is removed
  // when the server closes, if it is still the one made here.
  Result<void> listen_unix(const std::string& path, unsigned mode = 0666);

  // Stops listening and closes idle connections at once, busy ones after their response, all of
  // them after `grace`. Then calls done, never before shutdown() has returned.
  void shutdown(Duration grace, std::function<void()> done = nullptr);

  Counters counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuyard::http
