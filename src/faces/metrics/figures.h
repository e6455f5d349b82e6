// What /metrics tells beside the GPUs' readings: plain values that whoever owns the facts fills in
// for one rendering. Knows no lease, rule or sink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "metrics/text.h"

namespace gpuyard::metrics {

// Who has which GPU, as numbers: never whose they are.
struct LeaseFigures {
  std::vector<std::pair<std::uint32_t, bool>> gpus = {};  // by index, whether it is leased
  std::size_t held = 0;
  std::size_t waiting = 0;
  std::uint64_t grants = 0;
};

// An alert that fires. Its text is in no metric; of one rule and one GPU there is one.
struct FiringAlert {
  std::string rule;                          // as the configuration calls it
  std::string level;                         // info, warning, error or critical
  int severity = 0;                          // 0 to 100
  std::optional<std::uint32_t> device = {};  // index; none: it is the node's
  bool acknowledged = false;
  bool silenced = false;
};

// Where alerts are sent to, since the daemon started.
struct SinkFigures {
  std::string name;  // as the configuration calls it
  std::string kind;  // log, command, webhook, slack, pagerduty, alertmanager
  std::size_t queued = 0;
  std::uint64_t delivered = 0;
  std::uint64_t retries = 0;
  std::uint64_t dead = 0;  // given up
};

struct AlertFigures {
  std::vector<FiringAlert> firing = {};
  std::vector<SinkFigures> sinks = {};
  std::size_t pending = 0;          // conditions that are met, and not yet for long enough
  std::size_t rules = 0;            // that are looked at
  const Histogram* tick = nullptr;  // what looking at all of them costs; nothing: not measured
};

// Of the daemon itself, beside the GPUs.
struct Process {
  std::string version;
  const Histogram* loop_lag = nullptr;   // nothing: not measured
  const LeaseFigures* leases = nullptr;  // nothing: no GPU is handed out here
  const AlertFigures* alerts = nullptr;  // nothing: nobody looks for what is wrong
  std::string hostname = {};             // a label of DCGM's dialect; "": it is left out
};

// What fires, and what became of telling it, as families of series.

void put_alerts(Text&, const AlertFigures&);

}  // namespace gpuyard::metrics
