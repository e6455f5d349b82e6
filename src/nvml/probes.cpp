#include "nvml/probes.h"

#include <climits>
#include <concepts>
#include <limits>
#include <utility>

#include "device/catalog.h"
#include "nvml/codes.h"

namespace gpuyard::nvml {
namespace {

constexpr const char* kImplausible = "the driver's value is not plausible";

// Puts the answer of one driver call into a sample. Made before the call: a reading is as old as
// the moment at which the driver was asked.
class Recorder {
 public:
  Recorder(Probe probe, Sample& sample)
      : probe_(probe), sample_(sample), taken_(BootClock::now()) {}

  // The driver's counters are unsigned and say "not available" as all ones; JSON's integers are
  // exact below 2^53, which no real value comes near.
  template <std::integral Number>
  void value(Metric metric, Number number) {
    constexpr auto kLargest = std::int64_t{1} << 53U;
    if (number == std::numeric_limits<Number>::max() || std::cmp_greater(number, kLargest)) {
      return missing(metric, {MissingReason::failed, kImplausible});
    }
    sample_.set({metric, 0, taken_, static_cast<std::int64_t>(number)});
  }
  void missing(Metric metric, Missing why) { sample_.set({metric, 0, taken_, std::move(why)}); }
  // Every row of the probe.
  void missing(const Missing& why) {
    for (const Metric metric : row_of(probe_).fills) missing(metric, why);
  }
  void missing(ReturnCode code) { missing(missing_of(code)); }

 private:
  Probe probe_;
  Sample& sample_;
  TimePoint taken_;
};

void read_memory(const Api& api, DeviceHandle device, Recorder record) {
  MemoryV1 memory;
  const ReturnCode code = api.memory_info(device, &memory);
  if (code != kSuccess) return record.missing(code);
  if (memory.free > memory.total || memory.total == ULLONG_MAX) {
    return record.missing({MissingReason::failed, kImplausible});
  }
  record.value(Metric::memory_total, memory.total);
  record.value(Metric::memory_free, memory.free);
  // Not `used`: later layouts of this struct leave the driver's reserve out of it, and total - free
  // means the same everywhere.
  record.value(Metric::memory_used, memory.total - memory.free);
}

void read_utilization(const Api& api, DeviceHandle device, Recorder record) {
  Utilization rates;
  const ReturnCode code = api.utilization_rates(device, &rates);
  if (code != kSuccess) return record.missing(code);
  if (rates.gpu > 100) return record.missing({MissingReason::failed, kImplausible});
  record.value(Metric::utilization_gpu, rates.gpu);
}

void read_temperature(const Api& api, DeviceHandle device, Recorder record) {
  TemperatureV1 versioned;
  ReturnCode code = api.temperature_v(device, &versioned);
  int celsius = versioned.celsius;
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch) {
    unsigned plain = 0;  // drivers before 575 have only this one
    code = api.temperature(device, kTemperatureGpu, &plain);
    celsius = static_cast<int>(plain);  // it says unsigned and means signed
  }
  if (code != kSuccess) return record.missing(code);
  record.value(Metric::temperature_core, celsius);
}

// A probe that is one call with one number for an answer.
template <class Number, class Ask>
void read_one(Probe probe, Recorder record, Ask ask) {
  Number answer{};
  const ReturnCode code = ask(&answer);
  if (code != kSuccess) return record.missing(code);
  record.value(row_of(probe).fills.front(), answer);
}

}  // namespace

void run_probe(const Api& api, DeviceHandle device, Probe probe, Sample& sample) {
  const Recorder record(probe, sample);
  switch (probe) {
    case Probe::memory:
      return read_memory(api, device, record);
    case Probe::utilization:
      return read_utilization(api, device, record);
    case Probe::temperature:
      return read_temperature(api, device, record);
    case Probe::power:
      return read_one<unsigned>(probe, record,
                                [&](unsigned* mw) { return api.power_usage(device, mw); });
    case Probe::energy:
      return read_one<unsigned long long>(probe, record, [&](unsigned long long* mj) {
        return api.total_energy_consumption(device, mj);
      });
    case Probe::sm_clock:
      return read_one<unsigned>(
          probe, record, [&](unsigned* mhz) { return api.clock_info(device, kClockSm, mhz); });
    case Probe::power_limit:
      return read_one<unsigned>(probe, record,
                                [&](unsigned* mw) { return api.enforced_power_limit(device, mw); });
  }
}

}  // namespace gpuyard::nvml
