// gpuyard fleet top: the machines live, on a terminal.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/screen/terminal.h"
#include "fleet/watch.h"

namespace gpuyard::cli {

// What the user has chosen to see.
struct FleetLook {
  enum class Pane { nodes, gpus, users };
  enum class Order { named, free, power, hottest, alerts };
  Pane pane = Pane::nodes;
  Order order = Order::named;
  std::size_t scrolled = 0;  // lines
};

// Changes the look by a key, as the terminal sends it; false: the user wants to leave.
bool press(FleetLook&, std::string_view key, std::size_t page);

// The screen: the machines as they were last heard of, and below it who does not answer and since
// when. Scrolls no further than to the last line.
std::string fleet_screen(std::vector<fleet::LastWord>, FleetLook&, TimePoint now, const Screen&);

// Returns the exit code.
int fleet_top(const std::vector<fleet::Host>&, const fleet::Manner&, ColorWish);

}  // namespace gpuyard::cli
