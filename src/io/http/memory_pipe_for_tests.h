// A connection without a socket, whose client end is a test or a fuzzer. Includes Asio.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/http/stream.h"

namespace gpuyard::http {

// The client end. Everything on the loop's thread; what it does takes effect when the loop turns.
class MemoryPipe {
 public:
  explicit MemoryPipe(IoLoop& loop);
  ~MemoryPipe();

  // The server's end; may outlive the pipe.
  std::unique_ptr<Stream> stream();

  void send(std::string_view bytes);
  void finish();  // no more bytes follow; the client still listens
  void vanish();  // from here on reads and writes of the server fail
  void stall();   // the server's writes never finish any more

  std::string take_received();
  std::size_t unread() const;       // bytes sent that the server has not taken yet
  bool finished_by_server() const;  // finish() or abort() was called

  struct State;

 private:
  IoLoop& loop_;
  std::shared_ptr<State> state_;
};

}  // namespace gpuyard::http
