#include "faces/protocol/host.h"

#include "faces/api/answering_reader_for_tests.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using testing::HasSubstr;

constexpr const char* kHostPath = "/api/gpu/host";

class HostRoute : public LeaseRoutes {
 protected:
  HostRoute() {
    machine_.hostname = "lab1";
    machine_.cpus = 16;
    machine_.numa_nodes = {{0, {0, 1}, std::nullopt}};
    context_.host.read_machine = [this](const auto& on_read) {
      if (worker_is_full_) return false;
      on_read(machine_);
      return true;
    };
  }

  // The GPUs are read from now on.
  void read_gpus() {
    driver_.reader = &reader_;
    pass(std::chrono::seconds(6));  // the slow tier, too
  }
  protocol::HostInventory inventory() {
    const auto call = get(kHostPath);
    auto read = json::from_json<protocol::HostInventory>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::HostInventory{};
  }

  AnsweringReader reader_{loop_, telemetry_};
  protocol::HostMachine machine_;
  bool worker_is_full_ = false;
};

TEST_F(HostRoute, HasMachineAndGpus) {
  reader_.numbers[Metric::minor_number] = 3;
  reader_.numbers[Metric::numa_node] = 1;
  read_gpus();
  const auto host = inventory();
  EXPECT_EQ(host.machine.hostname, "lab1");
  EXPECT_EQ(host.machine.cpus, 16);
  EXPECT_EQ(host.machine.sockets, std::nullopt);
  ASSERT_TRUE(host.machine.numa_nodes);
  EXPECT_EQ(host.machine.numa_nodes->at(0).cores, std::nullopt);
  ASSERT_EQ(host.gpus.size(), 2U);
  EXPECT_EQ(host.gpus[1].index, 1U);
  EXPECT_EQ(host.gpus[1].minor, 3);
  EXPECT_EQ(host.gpus[1].numa_node, 1);
  EXPECT_EQ(host.gpus[1].mig_enabled, false);
  EXPECT_EQ(host.gpus[1].lost, std::nullopt);
}

TEST_F(HostRoute, UnreadGpuIsUnknown) {
  const protocol::HostGpu gpu = inventory().gpus.at(0);
  EXPECT_EQ(gpu.minor, std::nullopt);
  EXPECT_EQ(gpu.numa_node, std::nullopt);
  EXPECT_EQ(gpu.mig_enabled, std::nullopt);
}

TEST_F(HostRoute, NegativeNodeIsUnknown) {
  reader_.numbers[Metric::numa_node] = -1;
  read_gpus();
  EXPECT_EQ(inventory().gpus.at(0).numa_node, std::nullopt);
}

TEST_F(HostRoute, GpuWithoutMigIsNotInMigMode) {
  reader_.missing[Metric::mig_mode] = {MissingReason::not_supported, ""};
  read_gpus();
  EXPECT_EQ(inventory().gpus.at(0).mig_enabled, false);
}

TEST_F(HostRoute, FailedReadingOfMigModeIsUnknown) {
  reader_.missing[Metric::mig_mode] = {MissingReason::failed, "Unknown Error"};
  read_gpus();
  EXPECT_EQ(inventory().gpus.at(0).mig_enabled, std::nullopt);
}

TEST_F(HostRoute, LostGpuHasReason) {
  for (const MetricRow& row : catalog()) {
    reader_.missing[row.metric] = {MissingReason::device_lost, "GPU is lost"};
  }
  read_gpus();
  EXPECT_EQ(inventory().gpus.at(0).lost, "GPU is lost");
}

TEST_F(HostRoute, MissingDriverHasReason) {
  telemetry_.on_host_down("driver-host exited");
  EXPECT_EQ(inventory().driver_error, "driver-host exited");
}

TEST_F(HostRoute, FullWorkerIsBusy) {
  worker_is_full_ = true;
  const auto call = get(kHostPath);
  EXPECT_EQ(call->status(), 503) << call->text();
  EXPECT_THAT(call->text(), HasSubstr("try again"));
}

// A plan of some of the GPUs would be wrong.
TEST_F(HostRoute, IsRefusedToATokenOfSomeGpus) {
  token_ = made({.name = "one", .uid = kAlice, .gpus = {"GPU-1"}, .made_by = "uid 0"}).text;
  EXPECT_EQ(get(kHostPath, over_tls())->status(), 403);
}

}  // namespace
}  // namespace gpuyard::api
