// The views of many machines as text: tables, and the screen of `gpuyard fleet top`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "faces/fleet/fleet_poller.h"
#include "faces/fleet/view.h"

namespace gpuyard::cli {

// A line a machine, those that did not answer included, and a last line about all.
Printable nodes_text(const fleet::FleetNodes&, const Screen&);
Printable gpus_text(const fleet::FleetGpus&, const Screen&);
Printable users_text(const fleet::FleetUsers&, const Screen&);
Printable offers_text(const fleet::FleetOffers&, const Screen&);
Printable claims_text(const fleet::FleetQueue&, WallTime now, const Screen&);
Printable firing_text(const fleet::FleetAlerts&, WallTime now, const Screen&);
Printable diagnosis_text(const fleet::FleetDiagnosis&, const Screen&);

// "n7: ..." for each machine that did not answer, and for a second name of one that did.
Printable problems_text(const fleet::FleetAnswer&);

// The view that the user of `fleet top` has chosen.
struct FleetViewState {
  enum class Pane { nodes, gpus, users };
  enum class Order { named, free, power, hottest, alerts };
  Pane pane = Pane::nodes;
  Order order = Order::named;
  std::size_t scrolled = 0;  // lines
};

// Changes the view by a key, as the terminal sends it; false: the user wants to leave.
bool handle_key(FleetViewState&, std::string_view key, std::size_t page);

// The screen: the last answer of each machine, and below them the machines that do not answer and
// since when. Scrolls no further than to the last line.
Printable fleet_screen(std::vector<fleet::HostStatus>, FleetViewState&, TimePoint now,
                       const Screen&);

// Shows it until the user leaves; returns the exit code.
int fleet_top(const std::vector<fleet::Host>&, const fleet::FanOutOptions&, ColorMode);

}  // namespace gpuyard::cli
