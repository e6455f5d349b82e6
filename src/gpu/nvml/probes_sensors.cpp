// Memory, utilisation, temperature, power, clocks, fans.
#include <array>
#include <climits>

#include "gpu/nvml/probes.h"

namespace gpuyard::nvml {
namespace {

// Asks by both layouts: drivers before 510 know only the first one.
ReturnCode query_memory(const Api& api, DeviceHandle device, MemoryV2& memory, bool& has_reserved) {
  ReturnCode code = api.memory_info_v2(device, &memory);
  has_reserved = code == kSuccess;
  if (code != kFunctionNotFound && code != kArgumentVersionMismatch) return code;
  MemoryV1 first;
  code = api.memory_info(device, &first);
  memory.total = first.total;
  memory.free = first.free;
  return code;
}

// Boards with unified memory (GB10, GH200) report no memory reading: without this reason a healthy
// board looks faulty.
Missing missing_memory(ReturnCode code) {
  Missing why = missing_of(code);
  if (why.reason == MissingReason::not_supported) {
    why.detail += "; a GPU with unified memory uses the system's memory";
  }
  return why;
}

}  // namespace

void read_memory(const Api& api, DeviceHandle device, Recorder record) {
  MemoryV2 memory;
  bool has_reserved = false;
  const ReturnCode code = query_memory(api, device, memory, has_reserved);
  if (code != kSuccess) return record.missing(Probe::memory, missing_memory(code));
  if (memory.free > memory.total || memory.total == ULLONG_MAX) {
    return record.missing(Probe::memory, Missing{MissingReason::failed, kImplausible});
  }
  record.value(Metric::memory_total, memory.total);
  record.value(Metric::memory_free, memory.free);
  // total - free has the same meaning in both layouts of this struct; `used` includes the driver's
  // reserve in one of them only.
  record.value(Metric::memory_used, memory.total - memory.free);
  if (!has_reserved) return record.missing(Metric::memory_reserved, kNotSupported);
  record.value(Metric::memory_reserved, memory.reserved);
}

void read_bar1(const Api& api, DeviceHandle device, Recorder record) {
  Bar1Memory memory;
  const auto call = [&] { return api.bar1_memory_info(device, &memory); };
  if (!record.try_query(row_of(Probe::bar1).fills, call)) return;
  record.value(Metric::bar1_total, memory.total);
  record.value(Metric::bar1_free, memory.free);
  record.value(Metric::bar1_used, memory.used);
}

void read_utilization(const Api& api, DeviceHandle device, Recorder record) {
  Utilization rates;
  const ReturnCode code = api.utilization_rates(device, &rates);
  if (code != kSuccess) return record.missing(Probe::utilization, code);
  record.value(Metric::utilization_gpu, rates.gpu);
  record.value(Metric::utilization_memory, rates.memory);
}

void read_engines(const Api& api, DeviceHandle device, Probe probe, Recorder record) {
  const auto& call = probe == Probe::encoder ? api.encoder_utilization : api.decoder_utilization;
  record.query<unsigned>(row_of(probe).fills.front(), [&](unsigned* percent) {
    unsigned period_us = 0;
    return call(device, percent, &period_us);
  });
}

void read_temperature(const Api& api, DeviceHandle device, Recorder record) {
  TemperatureV1 versioned;
  ReturnCode code = api.temperature_v(device, &versioned);
  int celsius = versioned.celsius;
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch) {
    unsigned plain = 0;  // drivers before 575 have only this one
    code = api.temperature(device, kTemperatureGpu, &plain);
    celsius = static_cast<int>(plain);  // declared unsigned, but the value is signed
  }
  if (code != kSuccess) return record.missing(Probe::temperature, code);
  record.value(Metric::temperature_core, celsius);
}

void read_temperature_limits(const Api& api, DeviceHandle device, Recorder record) {
  const auto read = [&](Metric metric, unsigned threshold) {
    record.query<unsigned>(metric, [&](unsigned* celsius) {
      return api.temperature_threshold(device, threshold, celsius);
    });
  };
  read(Metric::temperature_slowdown, kThresholdSlowdown);
  read(Metric::temperature_shutdown, kThresholdShutdown);
  read(Metric::temperature_core_max, kThresholdGpuMax);
  read(Metric::temperature_memory_max, kThresholdMemoryMax);
}

void read_power_bounds(const Api& api, DeviceHandle device, Recorder record) {
  record.query(Metric::power_limit_default, api.power_default_limit, device);
  unsigned min_mw = 0;
  unsigned max_mw = 0;
  const auto call = [&] { return api.power_limit_constraints(device, &min_mw, &max_mw); };
  constexpr std::array kBounds = {Metric::power_limit_min, Metric::power_limit_max};
  if (!record.try_query(kBounds, call)) return;
  record.value(Metric::power_limit_min, min_mw);
  record.value(Metric::power_limit_max, max_mw);
}

void read_clocks(const Api& api, DeviceHandle device, Probe probe, Recorder record) {
  const auto& call = probe == Probe::clocks ? api.clock_info : api.max_clock_info;
  unsigned clock = kClockGraphics;  // the rows are in the order of nvmlClockType_t
  for (const Metric metric : row_of(probe).fills) {
    record.query<unsigned>(metric, [&](unsigned* mhz) { return call(device, clock, mhz); });
    ++clock;
  }
}

void read_fans(const Api& api, DeviceHandle device, Recorder record) {
  unsigned count = 0;
  const auto call = [&] {
    const ReturnCode code = api.fan_count(device, &count);
    if (code != kFunctionNotFound) return code;
    count = 1;
    return kSuccess;
  };
  if (!record.try_query(Metric::fan_speed, call)) return;
  if (count == 0) return record.missing(Metric::fan_speed, kNotSupported);
  for (std::uint16_t fan = 0; fan < count && fan < kMaxFans; ++fan) {
    unsigned percent = 0;
    ReturnCode code = api.fan_speed(device, fan, &percent);
    if (code == kFunctionNotFound && fan == 0) code = api.first_fan_speed(device, &percent);
    record.answer(Metric::fan_speed, code, percent, fan);
  }
}

}  // namespace gpuyard::nvml
