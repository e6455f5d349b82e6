// Shared by tests of several files: telemetry with a driver that the test plays.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "gpu/device/catalog.h"
#include "gpu/telemetry/telemetry.h"

namespace gpuyard::telemetry {

inline constexpr TimePoint kNow{std::chrono::hours(1)};
inline const DeviceInfo kGpu{"GPU-a", 0, "GPU-a", "0000:01:00.0", "H100", {}};

inline Inventory fleet_of(std::uint32_t count) {
  Inventory fleet;
  fleet.driver.driver_version = "535.104.05";
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string id = "GPU-" + std::to_string(i);
    fleet.devices.push_back({id, i, id, "", "H100", {}});
  }
  return fleet;
}

// Telemetry with a driver that the test plays: queries queue up until they are answered.
class TelemetryTest : public ::testing::Test, protected ReadRequester {
 protected:
  bool read(const std::vector<ReadRequest>& requests) override {
    if (!accepting_) return false;
    pending_requests_.insert(pending_requests_.end(), requests.begin(), requests.end());
    return true;
  }
  // Answers all pending queries except those of the stuck GPU.
  void answer() {
    loop_.run_posted();  // fresh reads begin there
    std::deque<ReadRequest> stuck;
    while (!pending_requests_.empty()) {
      const ReadRequest request = pending_requests_.front();
      pending_requests_.pop_front();
      if (request.device == stuck_) {
        stuck.push_back(request);
      } else {
        telemetry_.on_replies({{request.id, request.device, sample(request)}});
        loop_.run_posted();
      }
    }
    pending_requests_ = stuck;
  }
  Sample sample(const ReadRequest& request) {
    if (request.device == lost_) {
      return missing_sample(request.probes, {MissingReason::device_lost, "GPU is lost"},
                            loop_.now());
    }
    Sample out;
    request.probes.each([&](Probe probe) {
      for (const Metric metric : row_of(probe).fills) out.set({metric, 0, loop_.now(), value_});
    });
    if (request.probes.contains(Probe::processes) && processes_.processes()) {
      out.set(*processes_.processes());
    }
    return out;
  }
  void start(std::uint32_t gpus) {
    telemetry_.on_inventory(fleet_of(gpus));
    answer();
  }
  // Lets `time` pass in steps of 10 ms and answers the driver's queries after each.
  void pass(Duration time) {
    for (Duration step = std::chrono::milliseconds(10); time > Duration::zero(); time -= step) {
      loop_.advance(step);
      answer();
    }
  }
  const Snapshot& latest() const { return *telemetry_.latest(); }

  const CapturedLog log_;
  ManualLoop loop_;
  std::deque<ReadRequest> pending_requests_;
  bool accepting_ = true;
  DeviceId stuck_;
  DeviceId lost_;
  std::int64_t value_ = 42;
  Sample processes_;  // its process list is the answer, if it has one
  Telemetry telemetry_{loop_, *this};
};

// The kernel of a laptop: a GPU that is not queried for the delay is suspended, and a query wakes
// it.
class LaptopTest : public TelemetryTest {
 protected:
  class Kernel final : public RuntimePowerSource {
   public:
    explicit Kernel(LaptopTest& test) : test_(test) {}
    std::optional<Duration> suspend_delay(const std::string&) override { return kDelay; }
    bool is_suspended(const std::string&) override {
      return test_.loop_.now() - test_.queried_at_ >= kDelay;
    }

   private:
    LaptopTest& test_;
  };

  bool read(const std::vector<ReadRequest>& requests) override {
    queried_at_ = loop_.now();
    ++queries_;
    return TelemetryTest::read(requests);
  }
  void SetUp() override {
    value_ = 0;  // also the utilisation
    processes_.set(ProcessList{loop_.now(), std::vector<GpuProcess>{}});
    telemetry_.set_runtime_power(std::make_unique<Kernel>(*this),
                                 [this](const DeviceId&) { return needed_; });
    start(1);
  }
  bool is_asleep() const { return asleep_since(latest().devices[0]).has_value(); }

  static constexpr Duration kDelay = std::chrono::seconds(3);
  TimePoint queried_at_{};
  int queries_ = 0;
  bool needed_ = false;
};

}  // namespace gpuyard::telemetry
