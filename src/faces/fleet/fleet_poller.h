// Asks many daemons for their brief again and again, and keeps the last word of each: one that is
// slow or gone keeps nobody else from being asked.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "faces/fleet/fan_out.h"

namespace gpuyard::fleet {

// The last word of a host. `problem` is of the last time it was asked; the answer is the last that
// came.
struct HostStatus {
  Heard<protocol::Brief> heard;
  std::optional<TimePoint> came = {};  // nothing: it has never answered
};

class Watch {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(2);
  // A host that fails is asked less and less often, down to this: it keeps no thread from the
  // others, and nobody takes us for one who guesses at passwords.
  static constexpr Duration kSeldom = std::chrono::seconds(60);
  // Of more hosts no connection is kept between two questions: each ssh is a process.
  static constexpr std::size_t kMostKept = 256;

  Watch(const std::vector<Host>& hosts, Manner manner);
  // Waits for those that are being asked.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::vector<HostStatus> words() const;

 private:
  struct Yard {
    HostStatus word;
    std::optional<http::Endpoint> way;  // kept, and with it the connection of an ssh
    TimePoint due;
    int failures = 0;  // one after another
    bool being_asked = false;
  };

  void work(const std::stop_token&);
  Yard* take_due(const std::stop_token&);
  void ask(Yard&);

  const Manner manner_;
  mutable std::mutex mutex_;  // guards the yards, but for the way of one that is being asked
  std::vector<Yard> yards_;
  std::condition_variable_any due_;
  std::vector<std::jthread> threads_;
};

}  // namespace gpuyard::fleet
