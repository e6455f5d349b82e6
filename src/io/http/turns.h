// Who has much to write does it by turns: in one turn of the loop all of them together get a
// bounded time, so that whoever asks for little does not wait for a crowd. Inner header: includes
// Asio.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>

#include "base/clock.h"
#include "base/shares.h"
#include "http/asio.h"

namespace gpuyard::http {

class Turns {
 public:
  explicit Turns(asio::io_context& io) : io_(io) {}

  // Until all who asked before had theirs. What follows without waiting for anything else is the
  // turn: a write of a piece, say.
  asio::awaitable<void> next();
  // Until somebody wakes him, and then likewise.
  asio::awaitable<void> sleep(const void* who);
  // Cheap; nothing happens to whoever does not sleep.
  void wake(const void* who);

  static constexpr Duration kTogether = shares::kTurn;
  static constexpr std::size_t kPieceBytes = shares::kPieceBytes;  // to write in a turn

 private:
  using Resume = std::function<void()>;

  void add(Resume resume);
  void give();

  asio::io_context& io_;
  std::deque<Resume> waiting_;
  std::unordered_map<const void*, Resume> asleep_;
  bool giving_ = false;
};

}  // namespace gpuyard::http
