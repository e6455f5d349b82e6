// Turns of connections that have much to write.
#pragma once

#include <cstddef>
#include <functional>
#include <unordered_map>

#include "base/clock.h"
#include "base/fair_queue.h"
#include "base/limits.h"
#include "io/http/asio.h"
#include "io/http/connection_quotas.h"

namespace gpuyard::http {

// Gives turns to connections that have much to write. In one turn of the loop all of them together
// get a bounded time, so that a client that asks for little does not wait for many others; and the
// quota groups take turns, so that many connections of one do not delay the few of another. Root
// gets every second turn, because a local user can connect from many addresses, and each counts as
// a quota group.
// Thread: io.
class TurnScheduler {
 public:
  // In one turn of the loop all of them together get this time, but at least one does.
  explicit TurnScheduler(asio::io_context& io, Duration budget = kTurnBudget)
      : io_(io), budget_(budget) {}

  // Waits for a turn of this quota group. The turn is what the caller then does without waiting for
  // anything else: the write of a chunk, for example.
  asio::awaitable<void> wait_for_turn(const QuotaGroup&);
  // Waits until wake(`key`), and then for a turn as wait_for_turn() does.
  asio::awaitable<void> sleep(const void* key, const QuotaGroup&);
  // Cheap; does nothing if `key` does not sleep.
  void wake(const void* key);

  static constexpr Duration kTurnBudget = limits::kTurnBudget;
  // A write of at most this many bytes goes without waiting for a turn.
  static constexpr std::size_t kMaxImmediateBytes = std::size_t{16} * 1024;
  static constexpr std::size_t kPieceBytes = limits::kChunkBytes;  // to write in a turn

 private:
  using Resume = std::function<void()>;
  struct Sleeper {
    QuotaGroup quota_group;
    Resume resume;
  };

  void add(const QuotaGroup& group, Resume resume);
  void run_turns();

  asio::io_context& io_;
  const Duration budget_;
  RoundRobinQueue<QuotaGroup, Resume> waiting_;
  std::unordered_map<const void*, Sleeper> sleepers_;
  bool running_ = false;
};

}  // namespace gpuyard::http
