#include "nvml/probes.h"

#include <array>

#include "device/catalog.h"
#include "nvml/codes.h"

namespace gpuyard::nvml {
namespace {

// Puts the answer of one driver call into a sample.
class Recorder {
 public:
  explicit Recorder(Sample& sample) : sample_(sample), taken_(BootClock::now()) {}

  void value(Metric metric, std::int64_t number) { sample_.set({metric, 0, taken_, number}); }
  void missing(Metric metric, Missing why) { sample_.set({metric, 0, taken_, std::move(why)}); }
  void missing(Probe probe, ReturnCode code) {
    for (const Metric metric : row_of(probe).fills) missing(metric, missing_of(code));
  }

 private:
  Sample& sample_;
  TimePoint taken_;
};

// 64-bit counters of the driver are unsigned; ours are not. No real one comes near the difference.
std::int64_t to_int64(unsigned long long value) {
  return static_cast<std::int64_t>(value);
}

void read_memory(const Api& api, DeviceHandle device, Sample& sample) {
  MemoryV1 memory;
  const ReturnCode code = api.memory_info(device, &memory);
  Recorder record(sample);
  if (code != kSuccess) return record.missing(Probe::memory, code);
  if (memory.free > memory.total) {
    for (const Metric metric : row_of(Probe::memory).fills) {
      record.missing(metric,
                     {MissingReason::failed, "the driver says more memory is free than there is"});
    }
    return;
  }
  record.value(Metric::memory_total, to_int64(memory.total));
  record.value(Metric::memory_free, to_int64(memory.free));
  // Not `used`: later layouts of this struct leave the driver's reserve out of it, and total - free
  // means the same everywhere.
  record.value(Metric::memory_used, to_int64(memory.total - memory.free));
}

void read_utilization(const Api& api, DeviceHandle device, Sample& sample) {
  Utilization rates;
  const ReturnCode code = api.utilization_rates(device, &rates);
  Recorder record(sample);
  if (code != kSuccess) return record.missing(Probe::utilization, code);
  if (rates.gpu > 100) {
    return record.missing(Metric::utilization_gpu,
                          {MissingReason::failed, "the driver says more than 100 %"});
  }
  record.value(Metric::utilization_gpu, rates.gpu);
}

void read_temperature(const Api& api, DeviceHandle device, Sample& sample) {
  TemperatureV1 versioned;
  std::int64_t celsius = 0;
  ReturnCode code = api.temperature_v(device, &versioned);
  celsius = versioned.celsius;
  if (code == kFunctionNotFound || code == kArgumentVersionMismatch) {
    unsigned plain = 0;  // drivers before 575 have only this one
    code = api.temperature(device, kTemperatureGpu, &plain);
    celsius = plain;
  }
  Recorder record(sample);
  if (code != kSuccess) return record.missing(Probe::temperature, code);
  record.value(Metric::temperature_core, celsius);
}

// A probe that is one call with one number for an answer.
template <class Number, class Ask>
void read_one(Probe probe, Sample& sample, Ask ask) {
  Number answer{};
  const ReturnCode code = ask(&answer);
  Recorder record(sample);
  if (code != kSuccess) return record.missing(probe, code);
  record.value(row_of(probe).fills.front(), to_int64(answer));
}

}  // namespace

void run_probe(const Api& api, DeviceHandle device, Probe probe, Sample& sample) {
  switch (probe) {
    case Probe::memory:
      return read_memory(api, device, sample);
    case Probe::utilization:
      return read_utilization(api, device, sample);
    case Probe::temperature:
      return read_temperature(api, device, sample);
    case Probe::power:
      return read_one<unsigned>(probe, sample,
                                [&](unsigned* mw) { return api.power_usage(device, mw); });
    case Probe::energy:
      return read_one<unsigned long long>(probe, sample, [&](unsigned long long* mj) {
        return api.total_energy_consumption(device, mj);
      });
    case Probe::sm_clock:
      return read_one<unsigned>(
          probe, sample, [&](unsigned* mhz) { return api.clock_info(device, kClockSm, mhz); });
    case Probe::power_limit:
      return read_one<unsigned>(probe, sample,
                                [&](unsigned* mw) { return api.enforced_power_limit(device, mw); });
  }
}

}  // namespace gpuyard::nvml
