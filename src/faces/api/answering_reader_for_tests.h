// A driver for tests of routes about readings.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/loop.h"
#include "gpu/device/catalog.h"
#include "gpu/telemetry/telemetry.h"

namespace gpuyard::api {

// A driver that answers every query at once, with 0 wherever no other number is set.
class AnsweringReader final : public telemetry::ReadRequester {
 public:
  AnsweringReader(Loop& loop, telemetry::Telemetry& telemetry)
      : loop_(loop), telemetry_(telemetry) {}

  bool read(const std::vector<ReadRequest>& requests) override {
    for (const ReadRequest& request : requests) answer(request);
    return true;
  }

  bool lists_processes = true;
  std::map<Metric, std::int64_t> numbers = {{Metric::temperature_core, 40},
                                            {Metric::memory_total, 80'000'000'000}};
  std::map<Metric, Missing> missing = {};  // in place of a number

 private:
  void answer(const ReadRequest& request) {
    Sample sample;
    request.probes.each([&](Probe probe) {
      for (const Metric metric : row_of(probe).fills) {
        const auto number = numbers.find(metric);
        sample.set({metric, 0, loop_.now(), number != numbers.end() ? number->second : 0});
      }
    });
    for (const auto& [metric, why] : missing) sample.set({metric, 0, loop_.now(), why});
    if (lists_processes) sample.set(ProcessList{loop_.now(), std::vector<GpuProcess>{}});
    loop_.post(
        [this, request, sample] { telemetry_.on_replies({{request.id, request.device, sample}}); });
  }

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
};

}  // namespace gpuyard::api
