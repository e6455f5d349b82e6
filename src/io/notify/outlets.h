// Where alerts go: each sink with a queue of its own, so that one that hangs holds up no other.
// Knows how often and how long something is tried, and no sink's language.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "notify/notice.h"
#include "notify/sender.h"
#include "notify/sink_config.h"

namespace gpuyard::notify {

class SinkQueue;

// One sink in figures. No secret is in any of them.
struct SinkFigures {
  std::string name;
  SinkKind kind = SinkKind::log;
  std::string where;
  std::size_t queued = 0;  // what is under way included
  std::uint64_t delivered_total = 0;
  std::uint64_t retries_total = 0;
  std::uint64_t dead_letters_total = 0;
  std::optional<WallTime> failing_since;  // of the failures since the last success
  std::optional<std::string> last_error;
};

// An alert that goes on, and the sinks that were told so.
struct StillFiring {
  Notice notice;
  std::vector<std::string> sinks;
};

// On the loop's thread. What it tells, it tells later and on the loop, never within a call.
class Outlets {
 public:
  struct Told {
    std::function<void(const std::string& sink, const std::string& id)> delivered;
    // It will not be tried again.
    std::function<void(const std::string& sink, const std::string& id, const std::string& why)>
        dead;
  };

  Outlets(Loop&, MakeSender, Told);
  ~Outlets();
  Outlets(const Outlets&) = delete;
  Outlets& operator=(const Outlets&) = delete;

  // The sinks from now on; all or nothing. One that stays, by name and kind, keeps its queue and
  // its figures; of one that goes, each notice that waits is dead. Errc::invalid: more than
  // kMostSinks, or a name twice.
  Result<void> replace(std::vector<SinkConfig>);

  // The sinks that want to hear of that level, by name.
  std::vector<std::string> names_for(Level) const;
  // All sinks, by name.
  std::vector<std::string> names() const;

  // Queues it, whatever its level, and tells how that ended: once, unless this ends first. A sink
  // of that name which is not there makes it dead. Notices of one alert arrive in this order.
  void send(const std::string& sink, Notice);

  // All that fires now, whenever that changes: some sinks are told it again and again, and forget
  // what they are not told. Not part of what `Told` tells of.
  void still_firing(std::vector<StillFiring>);

  std::vector<SinkFigures> figures() const;

 private:
  Loop& loop_;
  MakeSender make_sender_;
  std::shared_ptr<const Told> told_;
  std::map<std::string, std::unique_ptr<SinkQueue>> queues_;
  std::set<std::string> missed_;  // sinks that are not there, and that the log named so
  std::vector<StillFiring> firing_;
};

}  // namespace gpuyard::notify
