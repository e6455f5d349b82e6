#include "daemon/machine_memory.h"

#include <gmock/gmock.h>

#include <optional>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "gpu/device/catalog.h"
#include "io/store/migrations.h"

namespace gpuyard::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kMachine = "this";

// One life of a daemon, over a disk that outlives it.
class MemoryFixture : private telemetry::ReadRequester {
 public:
  MemoryFixture(ManualLoop& loop, const std::string& path, const std::string& boot = "boot")
      : loop_(loop),
        store_(worker, worker, path, store::kStateMigrations),
        memory(loop, store_, telemetry, boot) {
    telemetry.set_listener([this](const telemetry::SnapshotPtr& snapshot) {
      for (events::Event& event : memory.on_snapshot(*snapshot)) {
        events.push_back(std::move(event.text));
      }
    });
  }

  void list(const std::vector<std::string>& uuids, const std::string& machine = kMachine) {
    Inventory fleet;
    for (std::uint32_t i = 0; i < uuids.size(); ++i) {
      fleet.devices.push_back({uuids[i], i, uuids[i], "", "H100", {}});
    }
    memory.recall(machine, [this, fleet] {
      telemetry.on_inventory(fleet);
      answer();
    });
  }
  void pass(Duration time = std::chrono::seconds(2)) {
    for (; time > Duration::zero(); time -= std::chrono::milliseconds(50)) {
      worker.run_all();
      loop_.advance(std::chrono::milliseconds(50));
      answer();
    }
  }
  void stop() {
    memory.flush();
    worker.run_all();
  }
  HealthReport health(std::size_t place) const {
    return telemetry.latest()->devices.at(place).health;
  }

 private:
  bool read(const std::vector<ReadRequest>& requests) override {
    asked_.insert(asked_.end(), requests.begin(), requests.end());
    return true;
  }
  void answer() {
    while (!asked_.empty()) {
      const ReadRequest request = asked_.back();
      asked_.pop_back();
      Sample sample;
      request.probes.each([&](Probe probe) {
        for (const Metric metric : row_of(probe).fills) sample.set({metric, 0, loop_.now(), value});
      });
      telemetry.on_replies({{request.id, request.device, sample}});
    }
  }

  ManualLoop& loop_;
  std::vector<ReadRequest> asked_;

 public:
  std::int64_t value = 40;  // of every reading, the counters of memory errors included
  ManualWorker worker;

 private:
  store::StateStore store_;

 public:
  telemetry::Telemetry telemetry{loop_, *this};
  MachineMemory memory;
  std::vector<std::string> events;
};

class MachineMemoryTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }

  const CapturedLog log_;
  ScratchDirectory directory_;
  ManualLoop loop_;
};

TEST_F(MachineMemoryTest, BoardMissingAfterRestartIsEvent) {
  {
    MemoryFixture before(loop_, path());
    before.list({"GPU-a", "GPU-b", "GPU-c"});
    before.pass();
    EXPECT_TRUE(before.events.empty());
    before.stop();
  }
  MemoryFixture after(loop_, path());
  after.list({"GPU-a", "GPU-c"});
  after.pass();
  ASSERT_EQ(after.telemetry.latest()->devices.size(), 3U);
  EXPECT_TRUE(is_missing(after.telemetry.latest()->devices[2].info));
  EXPECT_THAT(after.events,
              ElementsAre(HasSubstr("GPU GPU-b (was 1) is missing: not present since ")));
}

TEST_F(MachineMemoryTest, AMissingBoardStaysMissingUntilTakenOut) {
  {
    MemoryFixture first(loop_, path());
    first.list({"GPU-a", "GPU-b"});
    first.pass();
  }
  for (int restart = 0; restart < 2; ++restart) {
    MemoryFixture restarted(loop_, path());
    restarted.list({"GPU-a"});
    restarted.pass();
    EXPECT_EQ(restarted.events.size(), 1U);
    EXPECT_TRUE(restart == 0 || restarted.telemetry.remove_board("GPU-b"));
    restarted.pass();
  }
  MemoryFixture last(loop_, path());
  last.list({"GPU-a"});
  last.pass();
  EXPECT_TRUE(last.events.empty());
  EXPECT_EQ(last.telemetry.latest()->devices.size(), 1U);
}

TEST_F(MachineMemoryTest, NewErrorsAreStillNewAfterARestart) {
  RecordProperty("contract", "A9 A10");
  {
    MemoryFixture before(loop_, path());
    before.list({"GPU-a"});
    before.pass();
    before.value = 41;
    before.pass(std::chrono::seconds(30));
    EXPECT_EQ(before.health(0).verdict, Health::unhealthy);
  }
  {
    MemoryFixture after(loop_, path());
    after.value = 41;
    after.list({"GPU-a"});
    after.pass(std::chrono::milliseconds(300));
    EXPECT_EQ(after.health(0),
              (HealthReport{Health::unhealthy, {"1 new uncorrectable ECC error"}}));
    after.telemetry.acknowledge_errors("GPU-a");
    after.pass();
  }
  MemoryFixture last(loop_, path());
  last.value = 41;
  last.list({"GPU-a"});
  last.pass();
  EXPECT_EQ(last.health(0).verdict, Health::healthy);
}

TEST_F(MachineMemoryTest, ARebootEndsAVerdict) {
  {
    MemoryFixture before(loop_, path());
    before.value = 0;
    before.list({"GPU-a"});
    before.pass();
    before.value = 3;
    before.pass(std::chrono::seconds(30));
    EXPECT_EQ(before.health(0).verdict, Health::unhealthy);
  }
  MemoryFixture after(loop_, path(), "next boot");
  after.value = 0;
  after.list({"GPU-a"});
  after.pass();
  EXPECT_EQ(after.health(0).verdict, Health::healthy);
}

TEST_F(MachineMemoryTest, AnotherMachineHasNoMissingBoards) {
  {
    MemoryFixture real(loop_, path());
    real.list({"GPU-a", "GPU-b"});
    real.pass();
  }
  for (const char* machine : {"", "nvml:/other.so", "simulated:/w 1", "simulated:/w 2"}) {
    MemoryFixture other(loop_, path());
    other.list({"GPU-a"}, machine);
    other.pass();
    EXPECT_TRUE(other.events.empty()) << machine;
  }
  MemoryFixture real(loop_, path());
  real.list({"GPU-a"});
  real.pass();
  EXPECT_EQ(real.events.size(), 1U);
}

TEST_F(MachineMemoryTest, ASlowDiskDelaysTheFirstReading) {
  {
    MemoryFixture before(loop_, path());
    before.list({"GPU-a", "GPU-b"});
    before.pass();
  }
  MemoryFixture after(loop_, path());
  after.list({"GPU-a"});
  loop_.advance(MachineMemory::kRecallTimeout - std::chrono::milliseconds(1));
  EXPECT_EQ(after.telemetry.latest()->generation, 0U);
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(after.telemetry.latest()->devices.size(), 1U);
  after.pass();
  EXPECT_EQ(after.telemetry.latest()->devices.size(), 2U);
  EXPECT_EQ(after.events.size(), 1U);
}

TEST_F(MachineMemoryTest, AQuietMachineIsStoredOnceAnHour) {
  MemoryFixture life(loop_, path());
  life.list({"GPU-a"});
  life.pass();
  int stored = 0;
  for (int second = 0; second < 7200; ++second) {
    stored += life.worker.waiting() > 0 ? 1 : 0;
    life.pass(std::chrono::seconds(1));
  }
  EXPECT_LE(stored, 2);
}

}  // namespace
}  // namespace gpuyard::daemon
