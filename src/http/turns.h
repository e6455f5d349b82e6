// Who has much to write does it by turns: in one turn of the loop all of them together get a bounded
// time, so that whoever asks for little does not wait for a crowd. Inner header: includes Asio.
#pragma once

#include <deque>
#include <functional>

#include "base/clock.h"
#include "http/asio.h"

namespace gpuyard::http {

class Turns {
 public:
  explicit Turns(asio::io_context& io) : io_(io) {}

  // Until all who asked before had theirs. What follows without waiting for anything else is the
  // turn: a write of a piece, say.
  asio::awaitable<void> next();

  static constexpr Duration kTogether = std::chrono::microseconds(500);
  static constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;  // to write in a turn

 private:
  void add(std::function<void()> resume);
  void give();

  asio::io_context& io_;
  std::deque<std::function<void()>> waiting_;
  bool giving_ = false;
};

}  // namespace gpuyard::http
