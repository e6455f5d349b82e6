// All that the screen shows: what the source said last, and where the user is in it. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/top/grid.h"
#include "protocol/alerts.h"
#include "protocol/leases.h"
#include "protocol/resources.h"

namespace gpuyard::cli::top {

// What a source knows at one moment.
struct News {
  protocol::Snapshot snapshot;
  // Of a daemon only; empty: there is none, or it did not tell.
  std::optional<protocol::Leases> leases = {};
  std::optional<protocol::Queue> queue = {};
  std::optional<protocol::Alerts> alerts = {};
  WallTime heard = {};
};

// The newest utilisation of each GPU, by UUID, one value a second, from 0 to 1 or kNoValue.
inline constexpr std::size_t kRecent = 120;
using Recent = std::map<std::string, std::deque<double>>;
void note(Recent&, const protocol::Snapshot&);

enum class Pane { overview, gpu, processes, queue, alerts, help };

struct Model {
  News news;
  Recent recent;
  std::string host;
  std::string failure = {};  // why the news are old; "": they are not
  WallTime now = {};

  Pane pane = Pane::overview;
  std::size_t gpu = 0;       // the one that is pointed at, by its place in the snapshot
  std::size_t scrolled = 0;  // rows of the list above the screen
  bool detailed = true;      // a line for each GPU while that fits
};

// What a key asks for.
enum class Key {
  none,
  up,
  down,
  top,
  bottom,
  page_up,
  page_down,
  enter,
  back,
  quit,
  overview,
  processes,
  queue,
  alerts,
  next_pane,
  density,
  help
};

// Takes one key from the front of what a terminal sent; `none` for bytes that mean nothing. Escape
// alone is only a key once nothing follows it: `ended`.
Key take_key(std::string& bytes, bool ended);

// Changes where the user is. False: the user wants to leave.
bool press(Model&, Key, Size);

}  // namespace gpuyard::cli::top
