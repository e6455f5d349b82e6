#include "io/notify/sender.h"

#include <cstddef>
#include <utility>

#include "io/notify/command_sender.h"
#include "io/notify/http_sender.h"

namespace gpuyard::notify {

namespace {

// The sender of a closed sink: always fails with the reason.
class ClosedSender final : public Sender {
 public:
  ClosedSender(Loop& loop, std::string why) : loop_(loop), reason_(std::move(why)) {}
  void send(std::vector<Notification>, OnDone on_done) override {
    loop_.post(lifetime_.guard(
        [this, on_done = std::move(on_done)] { on_done(SendResult::retry_later(reason_)); }));
  }

 private:
  Loop& loop_;
  const std::string reason_;
  Lifetime lifetime_;
};

}  // namespace

WorkerFactory make_worker_factory(Loop& loop) {
  return [&loop](const std::string& name) {
    constexpr std::size_t kMaxThreadName = 15;
    // The end of the worker waits for no task: a sink that hangs may take any time.
    return std::make_unique<ThreadWorker>(loop, ("sink " + name).substr(0, kMaxThreadName),
                                          Duration::zero());
  };
}

SenderFactory make_sender_factory(Loop& loop, WorkerFactory make_worker) {
  return [&loop,
          make_worker = std::move(make_worker)](const SinkConfig& sink) -> std::unique_ptr<Sender> {
    if (sink.kind == SinkKind::log) return nullptr;  // needs no sender: see SinkQueue
    if (!sink.unusable_reason.empty())
      return std::make_unique<ClosedSender>(loop, sink.unusable_reason);
    if (sink.kind == SinkKind::command) return std::make_unique<CommandSender>(loop, sink);
    return std::make_unique<HttpSender>(loop, sink, make_worker(sink.name), fetch_over_network());
  };
}

}  // namespace gpuyard::notify
