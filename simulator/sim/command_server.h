// The world server's socket: takes commands, one datagram each, and answers. Knows nothing of
// worlds, but tells the handler which process and user sent each command.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/command.h"

namespace gpuyard::sim {

inline constexpr std::size_t kMaxClients = 64;
inline constexpr std::chrono::seconds kClientTimeout{2};  // then a silent client is dropped

// The sender of a command, as the kernel reports it.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  bool is_owner = false;  // root, or the world server's user
};

// The sender of commands that no client sent: those of a scenario or that fell due.
Peer own_peer();

Reply reply_of(const Result<void>&);

// One thread, never blocks: its owner polls the descriptors of append_descriptors() and calls
// serve().
class CommandServer {
 public:
  using Handler = std::function<Reply(const Command&, const Peer&)>;

  static Result<CommandServer> listen(const std::string& directory, Handler handler);

  CommandServer(CommandServer&&) = default;
  CommandServer& operator=(CommandServer&&) = delete;
  ~CommandServer();  // removes the socket, if the name is still its own

  // Appends the descriptors that serve() will check.
  void append_descriptors(std::vector<pollfd>& out) const;

  // Accepts, answers and drops clients. `polled` holds the entries that append_descriptors()
  // appended.
  void serve(std::span<const pollfd> polled, TimePoint now);

 private:
  struct Client {
    UniqueFd fd;
    Peer peer;
    TimePoint deadline;
  };

  CommandServer(WorldSocketAddress address, UniqueFd listener, Handler handler);

  void accept_one(TimePoint now);
  bool serve_client(Client& client);  // false: drop it
  Reply execute(const Client& client, const Command& command, std::size_t size);

  WorldSocketAddress address_;
  UniqueFd listener_;    // empty only in a moved-from server
  std::uint64_t inode_;  // of the socket's name: a successor may have taken it
  Handler handler_;
  std::vector<Client> clients_;
};

}  // namespace gpuyard::sim
