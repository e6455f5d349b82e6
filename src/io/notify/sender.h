// The way to one sink: one try to tell it, without a queue. How it fails is the sink's kind's to
// say; when to try again is not its business.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/worker.h"
#include "notify/notice.h"
#include "notify/outcome.h"
#include "notify/sink_config.h"

namespace gpuyard::notify {

// On the loop's thread, and never blocks it.
class Sender {
 public:
  using Done = std::function<void(Outcome)>;
  virtual ~Sender() = default;
  // One or several in one message, if the sink's kind takes several (see takes_several). `done`
  // runs once, later and on the loop, unless this is destroyed first: then the try may still
  // happen, but nobody hears of it. One at a time.
  virtual void send(std::vector<Notice> notices, Done done) = 0;
};

// Whether one message can carry all that is firing.
constexpr bool takes_several(SinkKind kind) {
  return kind == SinkKind::alertmanager;
}

using MakeSender = std::function<std::unique_ptr<Sender>(const SinkConfig&)>;

// A worker for each sink over the network, with a thread of its own, named after it.
using MakeWorker = std::function<std::unique_ptr<Worker>(const std::string& name)>;
MakeWorker worker_threads(Loop& loop);

// The real ones.
MakeSender make_senders(Loop& loop, MakeWorker make_worker);

}  // namespace gpuyard::notify
