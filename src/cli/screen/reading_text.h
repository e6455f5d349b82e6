// Readings as text for people. "-" stands for every missing reading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "faces/protocol/resources.h"
#include "gpu/device/event.h"

namespace gpuyard::cli {

inline constexpr std::string_view kNothing = "-";

// "71.7 GiB", "616 MiB", "17 B"
std::string bytes_text(std::int64_t bytes);

// "45.2 kJ", "616 J"
std::string joules_text(double joules);

// One value of a row with its unit: "66 \u00b0C", "605 W", "enabled", "45.2 kJ".
std::string value_text(const MetricRow&, const Reading&, const Screen&);

// All readings of a row: "30 %, 31 %" or "l2_cache 1, sram 0" if the row has a dimension.
std::string row_text(const MetricRow&, std::span<const Reading>, const Screen&);

// "sw power cap, hw thermal"; "none" if nothing holds the clocks down.
std::string throttle_text(std::int64_t reasons);
Tone throttle_tone(std::int64_t reasons);

// Cuts "NVIDIA H100 80GB HBM3" to "H100 80GB HBM3", which still tells the GPUs of a machine apart.
std::string short_name(std::string_view product_name);

// Names the models of some GPUs in the order of their first GPU: "8 H100 80GB HBM3" of one model,
// "2 RTX 4090, 2 H100, A100, T4" of several. Memory and form are left out of the names of several
// models, unless two would have the same name then.
std::string models_text(const std::vector<std::string>& product_names);
// "8 GPUs", "1 GPU"
std::string gpus_text(std::size_t count);

Tone severity_tone(EventSeverity);

// Uses the default thresholds of the health verdict. A daemon's own thresholds show in its verdict.
Tone temperature_tone(std::int64_t celsius);

// Returns the tone of the GPU's health, or of its condition if that is worse.
Tone health_tone(const protocol::Device&);
// "degraded: core temperature 78 C is above 75 C"; empty if the GPU is healthy or its health is not
// known.
std::string health_text(const protocol::Device&);

// The line that says that GPUs are simulated, or nothing.
Printable simulated_text(bool simulated);

// Turns "2026-01-31T13:05:12.250Z" into "14:05", in local time; with the date if it is not today.
// Returns other text as it was.
std::string local_moment(std::string_view rfc3339, WallTime now);
std::string local_moment(WallTime, WallTime now);
// The same with the zone, for a sentence: "14:05 CET".
std::string zoned_moment(std::string_view rfc3339, WallTime now);
std::string zoned_moment(WallTime, WallTime now);

}  // namespace gpuyard::cli
