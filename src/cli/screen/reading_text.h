// Readings as people read them. "-" stands for every reading that is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/screen/terminal.h"
#include "device/event.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

inline constexpr std::string_view kNothing = "-";

// "71.7 GiB", "616 MiB", "17 B"
std::string bytes_text(std::int64_t bytes);

// "45.2 kJ", "616 J"
std::string joules_text(double joules);

// One value of a row with its unit: "66 \u00b0C", "605 W", "enabled", "45.2 kJ".
std::string value_text(const Row&, const Reading&, const Screen&);

// All there is of a row: for one with a dimension, "30 %, 31 %" or "l2_cache 1, sram 0".
std::string row_text(const Row&, std::span<const Reading>, const Screen&);

// "sw power cap, hw thermal"; "none" if nothing holds the clocks down.
std::string throttle_text(std::int64_t reasons);
Tone throttle_tone(std::int64_t reasons);

// Whether this reason of a missing reading means that the GPU or driver will never tell.
bool is_unsupported(std::string_view reason);

// Whether it may tell when it is asked once more.
bool is_not_ready(std::string_view reason);

// "H100 80GB HBM3" of "NVIDIA H100 80GB HBM3": what tells the GPUs of a machine apart.
std::string short_name(std::string_view product_name);

Tone severity_tone(Severity);

// By the default thresholds of the health verdict; what a daemon was configured with is in its
// verdict.
Tone temperature_tone(std::int64_t celsius);

// Of the verdict on a GPU, or of its condition where that is worse.
Tone health_tone(const protocol::Device&);
// "degraded: core temperature 78 C is above 75 C"; empty for one that is well, or not known not to
// be.
std::string health_text(const protocol::Device&);

// Times of the API as people say them.

// "14:05" of "2026-01-31T13:05:12.250Z", in local time; with its date where that is not today's.
// What is no such time is as it was.
std::string local_moment(std::string_view rfc3339, WallTime now);

// "2026-01-31 12:00" of "2026-01-31T12:00:01.250Z", with so many characters of the time; nothing
// for what is no such time.
inline constexpr std::size_t kToTheMinute = 5;
inline constexpr std::size_t kToTheSecond = 8;
std::optional<std::string> utc_text(std::string_view rfc3339, std::size_t length_of_time);

}  // namespace gpuyard::cli
