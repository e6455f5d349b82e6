// What the screen shows, as a source knows it at one moment, and what the screen asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "faces/protocol/alerts.h"
#include "faces/protocol/history.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli::top {

// The newest utilisation of each GPU, by UUID, one value a second, from 0 to 1 or kNoValue.
inline constexpr std::size_t kUtilizationSamples = 120;
using UtilizationHistory = std::map<std::string, std::deque<double>>;
void append_utilization(UtilizationHistory&, const protocol::Snapshot&);

enum class Pane : std::uint8_t { overview, gpu, processes, queue, alerts, usage, help };
BOOST_DESCRIBE_ENUM(Pane, overview, gpu, processes, queue, alerts, usage, help)

// Something that happened, on the line of time.
struct TimelineMark {
  WallTime at{};
  char sign = '*';       // '*' an alert, '!' a severe one, 'X' an Xid
  std::string gpu = {};  // its UUID; empty: the machine
  std::string text = {};
};

// The data of a source at one moment.
struct ScreenData {
  protocol::Snapshot snapshot = {};
  // From a daemon only; empty: there is none, or it did not answer.
  std::optional<protocol::Leases> leases = {};
  std::optional<protocol::Queue> queue = {};
  std::optional<protocol::Alerts> alerts = {};
  std::optional<protocol::Usage> usage = {};
  std::string today = {};                // "31.2kWh 7.80EUR today"; empty: not known
  std::vector<TimelineMark> marks = {};  // oldest first
  protocol::HistoryColumns charts = {};  // of the GPU that the query names
  // The two minutes before; only of a past moment and of the first fetch after one.
  UtilizationHistory past_utilization = {};
  std::optional<WallTime> at = {};  // of a past moment, and of a recording
  WallTime fetched_at = {};
};

// The data that the screen asks for.
struct ScreenQuery {
  std::optional<WallTime> at = {};  // nothing: of now
  Pane pane = Pane::overview;
  bool clocks = false;           // of all GPUs: no list shows them, but a filter or an order may
  std::size_t change_count = 0;  // of the screen's changes; a new one refetches the lists
  std::string charts_gpu = {};   // a UUID; empty: none
  std::chrono::seconds span{};   // of the charts, which end at that moment

  friend bool operator==(const ScreenQuery&, const ScreenQuery&) = default;
};

}  // namespace gpuyard::cli::top
