// What GET /api/gpu/stream/power streams: the power of GPUs, many times a second. Field names are
// contract: they may be added to, not changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_shape.h"
#include "base/record.h"

namespace gpuyard::protocol {

// The name of its events. They have no id: what was is not told again.
inline constexpr std::string_view kPowerEvent = "power";

inline constexpr double kDefaultPowerHz = 20;
inline constexpr double kLowestPowerHz = 1;
inline constexpr double kHighestPowerHz = 100;

struct PowerStreamRequest {
  std::optional<std::string> gpus;
  std::optional<double> hz;
};
BOOST_DESCRIBE_STRUCT(PowerStreamRequest, (), (gpus, hz))

struct PowerSample {
  std::uint32_t index = 0;
  std::string uuid;
  std::int64_t t_ms = 0;
  std::optional<double> power_w;
  bool instant = false;
  std::optional<std::string> why;
  std::uint64_t skipped = 0;
};
BOOST_DESCRIBE_STRUCT(PowerSample, (), (index, uuid, t_ms, power_w, instant, why, skipped))

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <>
inline constexpr std::string_view schema_name<protocol::PowerSample> = "PowerSample";
template <>
inline constexpr About about<&protocol::PowerStreamRequest::gpus>{
    "Only these GPUs: indexes, UUIDs or PCI addresses, with commas."};
template <>
inline constexpr About about<&protocol::PowerStreamRequest::hz>{
    "How often each GPU is read, from 1 to 100 times a second; 20 unless it is said.",
    protocol::kLowestPowerHz, protocol::kHighestPowerHz};
template <>
inline constexpr About about<&protocol::PowerSample::t_ms>{
    "When the driver was asked, in milliseconds since 1970."};
template <>
inline constexpr About about<&protocol::PowerSample::instant>{
    "True: of this instant. False: the driver's average, over a second on many GPUs."};
template <>
inline constexpr About about<&protocol::PowerSample::why>{"Why power_w is null."};
template <>
inline constexpr About about<&protocol::PowerSample::skipped>{
    "Readings of this GPU since the one before that were left out because the listener was slow."};

}  // namespace gpuyard::json
