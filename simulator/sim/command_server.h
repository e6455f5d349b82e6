// The keeper's socket: takes commands from its own user and root, one datagram each, and answers.
// Knows nothing of worlds.
#pragma once

#include <poll.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/command.h"
#include "sim/keeper_socket.h"

namespace gpuyard::sim {

inline constexpr std::size_t kMaxClients = 64;
inline constexpr std::chrono::seconds kClientDeadline{2};  // of silence

// One thread, never blocks: its owner polls the descriptors it names and calls serve().
class CommandServer {
 public:
  using Handler = std::function<Result<void>(const Command&)>;

  static Result<CommandServer> listen(const std::string& directory, Handler handler);

  CommandServer(CommandServer&&) = default;
  CommandServer& operator=(CommandServer&&) = delete;
  ~CommandServer();  // removes the socket

  // Appends what serve() will look at.
  void wants(std::vector<pollfd>& out) const;

  // Accepts, answers and drops. `polled` is what wants() appended.
  void serve(std::span<const pollfd> polled, TimePoint now);

  std::size_t client_count() const { return clients_.size(); }

 private:
  struct Client {
    UniqueFd fd;
    bool may_command = false;
    TimePoint deadline;
  };

  CommandServer(KeeperAddress address, UniqueFd listener, Handler handler)
      : address_(std::move(address)),
        listener_(std::move(listener)),
        handler_(std::move(handler)) {}

  void accept_one(TimePoint now);
  bool answer(Client& client);  // false: drop it
  Result<void> execute(const Client& client, const Command& command, std::size_t size);

  KeeperAddress address_;
  UniqueFd listener_;  // empty only in a moved-from server
  Handler handler_;
  std::vector<Client> clients_;
};

}  // namespace gpuyard::sim
