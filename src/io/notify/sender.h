// Sends to one sink: one try, without a queue. Each kind of sink says how a try failed; when to try
// again is decided elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/command_run.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/worker.h"
#include "io/http/client.h"
#include "io/notify/notification.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

// How one try to tell a sink ended, which decides what to do next.

struct Outcome {
  enum class Kind {
    taken,    // the sink has it
    later,    // try again
    refused,  // trying again changes nothing
  };
  Kind kind = Kind::taken;
  std::string why = {};                // no secret; "" if taken
  std::optional<Duration> after = {};  // how long the receiver asked us to wait

  static Outcome taken() { return {}; }
  static Outcome later(std::string why) { return {Kind::later, std::move(why)}; }
  static Outcome refused(std::string why) { return {Kind::refused, std::move(why)}; }
};

// Lives on the loop's thread, and never blocks it.
class Sender {
 public:
  using Done = std::function<void(Outcome)>;
  virtual ~Sender() = default;
  // Sends one notice, or several in one message if the sink's kind takes several (see
  // takes_several). `done` runs once, later and on the loop, unless this is destroyed first: the
  // try may then still happen, but `done` does not run. One call at a time.
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

// Makes the real senders.
MakeSender make_senders(Loop& loop, MakeWorker make_worker);

// Tells what a receiver's answer, or the lack of one, means for the notice. Pure.

Outcome judge(const SinkConfig&, const Result<http::ClientResponse>&);

// A command as a sink: run once for each notice, which it finds in its environment. Inner header.

// GPUYARD_ALERT_MESSAGE and the others, and GPUYARD_ALERT_JSON.
std::vector<std::pair<std::string, std::string>> environment_of(const Notice&);

class CommandSender final : public Sender {
 public:
  CommandSender(Loop& loop, SinkConfig sink) : loop_(loop), sink_(std::move(sink)) {}
  void send(std::vector<Notice> notices, Done done) override;

 private:
  Loop& loop_;
  SinkConfig sink_;
  std::optional<CommandRun> run_;
};

// Sends to a sink over the network, by requests from a thread of its own. Inner header.

using Fetch = std::function<Result<http::ClientResponse>(const http::Origin&,
                                                         const http::ClientRequest&, Duration)>;
Fetch fetch_over_network();

class HttpSender final : public Sender {
 public:
  HttpSender(Loop&, SinkConfig, std::unique_ptr<Worker>, Fetch);
  void send(std::vector<Notice> notices, Done done) override;

 private:
  Loop& loop_;
  std::shared_ptr<const SinkConfig> sink_;
  std::shared_ptr<const Fetch> fetch_;
  std::string unused_proxy_;  // the variable that names it
  Lifetime here_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace gpuyard::notify
