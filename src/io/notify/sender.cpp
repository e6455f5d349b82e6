#include "notify/sender.h"

#include "notify/command_sender.h"
#include "notify/http_sender.h"

namespace gpuyard::notify {

MakeWorker worker_threads(Loop& loop) {
  return [&loop](const std::string& name) {
    constexpr std::size_t kLongestThreadName = 15;
    // What ends us waits for nobody: a sink that hangs may take as long as it likes.
    return std::make_unique<ThreadWorker>(loop, ("sink " + name).substr(0, kLongestThreadName),
                                          Duration::zero());
  };
}

MakeSender make_senders(Loop& loop, MakeWorker make_worker) {
  return [&loop,
          make_worker = std::move(make_worker)](const SinkConfig& sink) -> std::unique_ptr<Sender> {
    if (sink.kind == SinkKind::log) return nullptr;  // needs no way: see SinkQueue
    if (sink.kind == SinkKind::command) return std::make_unique<CommandSender>(loop, sink);
    return std::make_unique<HttpSender>(loop, sink, make_worker(sink.name), fetch_over_network());
  };
}

}  // namespace gpuyard::notify
