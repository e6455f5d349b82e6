// The facade over simulated GPUs, a fake SettingWriter and CPU counters that a test sets.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "faces/cpu/rapl_tree_for_tests.h"
#include "faces/zeus/facade.h"
#include "io/http/response_stream.h"
#include "io/http/target.h"

namespace gpuyard::zeus {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class FakeGpus final : public GpuSource {
 public:
  explicit FakeGpus(ManualLoop& loop) : loop_(loop) {
    snapshot.driver.initialised = true;
    for (const std::uint32_t index : {0U, 1U, 2U}) {
      DeviceState device;
      const std::string uuid = "GPU-" + std::to_string(index);
      device.info = {uuid,          index, uuid, "0000:0" + std::to_string(index + 1) + ":00.0",
                     "NVIDIA H100", {}};
      snapshot.devices.push_back(std::move(device));
    }
    set(Metric::energy_total, 5'000);
    set(Metric::power_draw, 70'000);
    set(Metric::power_draw_instant, 75'000);
    set(Metric::power_limit_set, 300'000);
    set(Metric::power_limit, 290'000);
    set(Metric::power_limit_min, 100'000);
    set(Metric::power_limit_max, 700'000);
    set(Metric::persistence_mode, 1);
  }

  // Sets the metric of every GPU to `value` plus the GPU's index.
  void set(Metric metric, std::int64_t value) {
    for (DeviceState& device : snapshot.devices) {
      device.sample.set(Reading{metric, 0, TimePoint{}, value + device.info.index});
    }
  }
  void lack(std::size_t gpu, Metric metric, Missing why) {
    snapshot.devices[gpu].sample.set(Reading{metric, 0, TimePoint{}, std::move(why)});
  }

  std::shared_ptr<const Snapshot> latest() const override {
    Snapshot now = snapshot;
    now.taken = loop_.now();
    now.wall = loop_.wall();
    return std::make_shared<const Snapshot>(std::move(now));
  }
  void read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> on_done) override {
    asked = probes;
    loop_.post([this, on_done = std::move(on_done)] { on_done(*latest()); });
  }
  Subscription subscribe_power(const DeviceId& id, Duration period,
                               std::function<void(const Reading&)> on_reading) override {
    last_period = period;
    listeners[id] = std::move(on_reading);
    return Subscription([this, id] { listeners.erase(id); });
  }

  Snapshot snapshot;
  ProbeSet asked;
  Duration last_period{};
  std::map<DeviceId, std::function<void(const Reading&)>> listeners;

 private:
  ManualLoop& loop_;
};

class FakeControl final : public SettingWriter {
 public:
  Result<void> check_enabled() const override {
    if (on) return {};
    return Error{Errc::denied, "control is off: set [control] enabled = true"};
  }
  Result<void> check_access(const http::Request& request) override {
    if (request.peer.kind == http::Peer::Kind::unix_socket && request.peer.uid != stranger)
      return {};
    return Error{Errc::denied, "you may not " + request.path};
  }
  void submit(SettingOrder order,
              std::function<void(const std::vector<GpuOutcome>&)> on_done) override {
    std::vector<GpuOutcome> outcomes;
    for (const DeviceInfo& gpu : order.gpus) {
      const auto refused = refusals.find({gpu.index, order.kind});
      outcomes.push_back(
          {gpu.index, refused != refusals.end() ? Result<void>(refused->second) : Result<void>()});
    }
    orders.push_back(std::move(order));
    on_done(outcomes);
  }

  bool on = true;
  uid_t stranger = 1999;
  std::vector<SettingOrder> orders;
  std::map<std::pair<std::uint32_t, SettingKind>, Error> refusals;
};

class FacadeTest : public ::testing::Test {
 protected:
  FacadeTest() {
    tree_.put_package(0, 1'000'000);
    tree_.put_dram(0, 2'000);
    tree_.put_package(1, 3'000'000);
  }

  static http::Peer user(uid_t uid) {
    http::Peer peer;
    peer.kind = http::Peer::Kind::unix_socket;
    peer.uid = uid;
    return peer;
  }

  // Runs all work that needs no time to pass.
  void settle() {
    do {
      worker_.run_all();
      loop_.run_posted();
    } while (worker_.waiting() > 0);
  }

  // Sends a request and runs all work that needs no time to pass.
  void send(http::Method method, const std::string& target) {
    http::Request request;
    request.method = method;
    request.target = target;
    request.peer = peer_;
    request.id = 77;
    request.received_at = loop_.now();
    ASSERT_TRUE(http::decode_target(request));
    answers_.clear();
    served_->handle(std::move(request), http::Reply([this](http::Response answer) {
                      answers_.push_back(std::move(answer));
                    }));
    settle();
  }
  http::Response get(const std::string& target) { return answer_to(http::Method::get, target); }
  http::Response post(const std::string& target) { return answer_to(http::Method::post, target); }
  http::Response answer_to(http::Method method, const std::string& target) {
    send(method, target);
    if (answers_.empty()) {
      ADD_FAILURE() << "no answer to " << target;
      return {};
    }
    EXPECT_EQ(answers_.size(), 1U);
    return answers_.front();
  }
  static std::string text(const http::Response& response) {
    return response.body ? *response.body : "";
  }
  std::string got(const std::string& target) {
    const auto answer = get(target);
    EXPECT_EQ(answer.status, 200) << text(answer);
    return text(answer);
  }

  ManualLoop loop_;
  FakeGpus gpus_{loop_};
  FakeControl control_;
  cpu::RaplTree tree_;
  ManualWorker worker_;
  cpu::CpuEnergyMonitor cpus_{loop_, worker_, tree_.root()};
  CoarseEnergyMonitor coarse_cpus_{loop_, cpus_};
  Facade facade_{{loop_, gpus_, control_, cpus_, coarse_cpus_, false, "1.2.3"}};
  Facade* served_ = &facade_;
  http::Peer peer_ = user(1000);
  std::vector<http::Response> answers_;
};

}  // namespace gpuyard::zeus
