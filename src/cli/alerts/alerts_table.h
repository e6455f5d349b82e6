// Alerts, rules and sinks as tables for people.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "faces/protocol/alerts.h"

namespace gpuyard::cli {

// Returns the firing alerts, each with its advice; then the pending ones.
Printable alerts_text(const protocol::Alerts&, WallTime now, const Screen&);
Printable history_text(const protocol::AlertHistory&, WallTime now, const Screen&);
Printable silences_text(const protocol::Silences&, WallTime now, const Screen&);
Printable rules_text(const protocol::Rules&, const Screen&);
Printable sinks_text(const protocol::Sinks&, WallTime now, const Screen&);
Printable sink_tests_text(const protocol::SinkTests&);

// "42 thermal on GPU 3"
std::string name_text(const protocol::Alert&);

}  // namespace gpuyard::cli
