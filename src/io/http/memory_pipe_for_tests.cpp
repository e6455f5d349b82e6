#include "io/http/memory_pipe_for_tests.h"

#include <algorithm>
#include <cstring>

#include "io/http/loop_core.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gpuyard::http {

struct MemoryPipe::State {
  explicit State(asio::io_context& io) : changed(io) {}

  asio::steady_timer changed;  // never expires; cancelling it wakes the server's end
  std::string to_server;
  std::string to_client;
  bool client_finished = false;
  bool client_vanished = false;
  bool stalled = false;
  bool server_finished = false;
  bool aborted = false;
  bool interrupted = false;

  bool broken() const { return client_vanished || aborted; }
  void wake() { changed.cancel(); }

  std::function<void()> on_hangup;  // the server's watch for a hangup
};

namespace {

class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(std::shared_ptr<MemoryPipe::State> state) : state_(std::move(state)) {}
  ~MemoryStream() override { state_->aborted = true; }

  asio::awaitable<IoResult> read(std::span<char> space) override {
    state_->interrupted = false;
    while (state_->to_server.empty() && !state_->client_finished && !state_->broken() &&
           !state_->interrupted) {
      co_await change();
    }
    const bool failed = state_->broken() || state_->interrupted;
    const std::size_t bytes = failed ? 0 : std::min(space.size(), state_->to_server.size());
    std::memcpy(space.data(), state_->to_server.data(), bytes);
    state_->to_server.erase(0, bytes);
    const IoResult io(!failed, bytes);
    co_return io;
  }

  asio::awaitable<IoResult> write(std::string_view head, std::string_view body) override {
    while (state_->stalled && !state_->broken()) co_await change();
    const bool failed = state_->broken();
    if (!failed) state_->to_client.append(head).append(body);
    const IoResult io(!failed, failed ? 0 : head.size() + body.size());
    co_return io;
  }

  asio::awaitable<IoResult> write_all(std::span<const std::string_view> parts) override {
    std::string all;
    for (const std::string_view part : parts) all += part;
    const std::string_view nothing;
    const IoResult io = co_await write(all, nothing);
    co_return io;
  }

  void limit_unsent(std::size_t) override {}  // it has no buffer of its own
  void finish() override { state_->server_finished = true; }
  bool has_hung_up() const override { return state_->broken(); }
  void watch_hangup(std::function<void()> on_hangup) override {
    state_->on_hangup = std::move(on_hangup);
  }
  void interrupt() override {
    state_->on_hangup = nullptr;
    state_->interrupted = true;
    state_->wake();
  }
  void abort() override {
    state_->on_hangup = nullptr;
    state_->aborted = true;
    state_->wake();
  }

 private:
  asio::awaitable<void> change() {
    boost::system::error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    state_->changed.expires_at(asio::steady_timer::time_point::max());
    co_await state_->changed.async_wait(token);
  }

  std::shared_ptr<MemoryPipe::State> state_;
};

}  // namespace

MemoryPipe::MemoryPipe(IoLoop& loop)
    : loop_(loop), state_(std::make_shared<State>(loop.core().io)) {}
MemoryPipe::~MemoryPipe() = default;

std::unique_ptr<Stream> MemoryPipe::stream() {
  return std::make_unique<MemoryStream>(state_);
}

void MemoryPipe::send(std::string_view bytes) {
  state_->to_server += bytes;
  state_->wake();
}

void MemoryPipe::finish() {
  state_->client_finished = true;
  state_->wake();
}

void MemoryPipe::vanish() {
  state_->client_vanished = true;
  state_->wake();
  if (auto on_hangup = std::exchange(state_->on_hangup, nullptr)) loop_.post(std::move(on_hangup));
}

void MemoryPipe::stall() {
  state_->stalled = true;
}

std::string MemoryPipe::take_received() {
  return std::exchange(state_->to_client, std::string());
}

std::size_t MemoryPipe::unread() const {
  return state_->to_server.size();
}

bool MemoryPipe::finished_by_server() const {
  return state_->server_finished || state_->aborted;
}

}  // namespace gpuyard::http
