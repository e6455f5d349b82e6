#include "gpu/device/fake_backend.h"

#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"
#include "gpu/device/error.h"
#include "gpu/device/snapshot.h"

namespace gpuyard {
namespace {

constexpr std::int64_t kMemory = std::int64_t{80} << 30U;
const ProbeSet kEverything = probes_of(Tier::fast) | probes_of(Tier::slow);

class FakeBackendTest : public testing::Test {
 protected:
  Sample read(std::uint32_t index) { return backend_->read(all_[index].id, kEverything); }
  std::int64_t number(std::uint32_t index, Metric metric) { return *read(index).number(metric); }
  // Returns the GPUs that open.
  std::vector<DeviceInfo> visible() {
    std::vector<DeviceInfo> out;
    for (std::uint32_t i = 0; i < backend_->start()->gpu_count; ++i) {
      if (const DeviceInfo info = backend_->open(i); !info.fault) out.push_back(info);
    }
    return out;
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(3, kMemory);
  std::unique_ptr<Backend> backend_ = fleet_.backend();
  const std::vector<DeviceInfo> all_ = fleet_.inventory().devices;
};

TEST_F(FakeBackendTest, FakeImplementsBackendInterface) {
  RecordProperty("contract", "A4");
  const std::unique_ptr<Backend> backend = FakeFleet::with_healthy_gpus(2, kMemory).backend();
  const auto session = backend->start();
  ASSERT_TRUE(session);
  ASSERT_EQ(session->gpu_count, 2U);
  EXPECT_EQ(backend->open(0).index, 0U);
  EXPECT_EQ(backend->open(1).index, 1U);
}

TEST_F(FakeBackendTest, HealthyGpusAreAt40DegreesAndIdle) {
  RecordProperty("contract", "A5 A7 A15");
  EXPECT_EQ(number(2, Metric::memory_total), kMemory);
  EXPECT_EQ(number(2, Metric::memory_used), 0);
  EXPECT_EQ(number(2, Metric::temperature_core), 40);
  EXPECT_EQ(number(2, Metric::utilization_gpu), 0);
}

TEST_F(FakeBackendTest, ReadReturnsExactlyRequestedProbeRows) {
  const Sample sample = backend_->read(all_[0].id, {Probe::temperature, Probe::power});
  ASSERT_EQ(sample.readings().size(), 2U);
  EXPECT_NE(sample.number(Metric::temperature_core), nullptr);
  EXPECT_EQ(sample.find(Metric::power_draw)->missing()->reason, MissingReason::not_supported);
}

TEST_F(FakeBackendTest, AChangeShowsInTheNextRead) {
  fleet_.set_temperature(1, 91);
  fleet_.set_number(1, Metric::power_draw, 312'500);
  EXPECT_EQ(number(1, Metric::temperature_core), 91);
  EXPECT_EQ(number(1, Metric::power_draw), 312'500);
  EXPECT_EQ(number(0, Metric::temperature_core), 40);
}

TEST_F(FakeBackendTest, UsedAndFreeMemoryMakeTheTotal) {
  fleet_.set_memory_used(0, 30);
  EXPECT_EQ(number(0, Metric::memory_used), 30);
  EXPECT_EQ(number(0, Metric::memory_free), kMemory - 30);
  fleet_.set_memory_used(0, kMemory + 1);
  EXPECT_EQ(number(0, Metric::memory_used), kMemory);
  fleet_.set_memory_used(0, -1);
  EXPECT_EQ(number(0, Metric::memory_used), 0);
}

TEST_F(FakeBackendTest, MemoryThatCannotBeReadCannotBeUsed) {
  fleet_.set_missing(0, Metric::memory_total, {MissingReason::not_supported, ""});
  fleet_.set_memory_used(0, 30);
  EXPECT_EQ(read(0).number(Metric::memory_total), nullptr);
}

TEST_F(FakeBackendTest, AMissingReadingKeepsItsReason) {
  fleet_.set_missing(0, Metric::utilization_gpu, {MissingReason::failed, "Unknown Error"});
  const Sample sample = read(0);
  EXPECT_EQ(sample.number(Metric::utilization_gpu), nullptr);
  EXPECT_EQ(describe(*sample.find(Metric::utilization_gpu)->missing()), "Unknown Error");
}

TEST_F(FakeBackendTest, RemovedGpuLeavesOtherIndicesUnchanged) {
  fleet_.remove_gpu(1);
  ASSERT_EQ(visible().size(), 2U);
  EXPECT_EQ(visible()[1].index, 2U);
}

TEST_F(FakeBackendTest, EveryReadingOfARemovedGpuIsLost) {
  fleet_.remove_gpu(1);
  const Sample sample = read(1);
  ASSERT_FALSE(sample.readings().empty());
  for (const Reading& reading : sample.readings()) {
    ASSERT_NE(reading.missing(), nullptr);
    EXPECT_EQ(reading.missing()->reason, MissingReason::device_lost);
  }
}

TEST_F(FakeBackendTest, ChangeToAbsentGpuIsIgnored) {
  RecordProperty("contract", "A15");
  fleet_.inject_ecc_error(99);
  fleet_.set_temperature(3, 90);
  fleet_.set_memory_used(99, 1);
  fleet_.remove_gpu(99);
  fleet_.remove_gpu(2);
  fleet_.set_temperature(2, 90);
  EXPECT_EQ(visible().size(), 2U);
  EXPECT_EQ(read(2).number(Metric::temperature_core), nullptr);
}

TEST_F(FakeBackendTest, UnknownGpuReturnsMissingReasons) {
  const Sample sample = backend_->read("GPU-nobody", {Probe::temperature});
  ASSERT_EQ(sample.readings().size(), 1U);
  EXPECT_NE(sample.readings().front().missing(), nullptr);
}

TEST_F(FakeBackendTest, AnInjectedErrorIsOneMore) {
  RecordProperty("contract", "A15");
  EXPECT_EQ(number(0, Metric::ecc_uncorrected_aggregate), 0);
  fleet_.inject_ecc_error(0);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(number(0, Metric::ecc_uncorrected_aggregate), 2);
  EXPECT_EQ(number(0, Metric::ecc_uncorrected_volatile), 2);
  EXPECT_EQ(number(1, Metric::ecc_uncorrected_aggregate), 0);
}

TEST_F(FakeBackendTest, ErrorsDoNotCountBeyondTheLargestCount) {
  RecordProperty("contract", "A15");
  constexpr auto kMaxValue = std::numeric_limits<std::int64_t>::max();
  fleet_.set_number(0, Metric::ecc_uncorrected_aggregate, kMaxValue);
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(number(0, Metric::ecc_uncorrected_aggregate), kMaxValue);
}

TEST_F(FakeBackendTest, AGpuWithoutEccHasNoErrors) {
  RecordProperty("contract", "A15");
  for (const Metric metric : {Metric::ecc_uncorrected_aggregate, Metric::ecc_uncorrected_volatile})
    fleet_.set_missing(0, metric, {MissingReason::not_supported, ""});
  fleet_.inject_ecc_error(0);
  EXPECT_EQ(read(0).number(Metric::ecc_uncorrected_aggregate), nullptr);
}

TEST_F(FakeBackendTest, ReplugRestoresGpuState) {
  RecordProperty("contract", "A15");
  fleet_.set_temperature(1, 63);
  fleet_.remove_gpu(1);
  fleet_.replug_gpu(1);
  EXPECT_EQ(visible().size(), 3U);
  EXPECT_EQ(number(1, Metric::temperature_core), 63);
  EXPECT_EQ(backend_->open(1), all_[1]);
}

TEST_F(FakeBackendTest, AGpuMayComeBackUnderAnotherIndex) {
  RecordProperty("contract", "A15");
  fleet_.remove_gpu(1);
  fleet_.replug_gpu(1, 7);
  EXPECT_EQ(backend_->start()->gpu_count, 8U);
  EXPECT_NE(backend_->open(1).fault, std::nullopt);
  EXPECT_EQ(backend_->open(7).uuid, all_[1].uuid);
  EXPECT_EQ(number(1, Metric::temperature_core), 40) << "its key is not its index";
  fleet_.set_temperature(7, 63);
  EXPECT_EQ(number(1, Metric::temperature_core), 63);
}

TEST_F(FakeBackendTest, ReplugRequiresRemovedGpuAndFreeIndex) {
  fleet_.replug_gpu(1, 7);
  fleet_.replug_gpu(9);
  EXPECT_EQ(fleet_.inventory().devices, all_);
  fleet_.remove_gpu(1);
  fleet_.replug_gpu(1, 2);
  EXPECT_EQ(visible().size(), 2U);
}

TEST_F(FakeBackendTest, AddedGpuHasOwnState) {
  RecordProperty("contract", "C16");
  fleet_.remove_gpu(1);
  fleet_.replug_gpu(1, 7);
  EXPECT_TRUE(fleet_.add_gpu(1, "Another", 10));
  EXPECT_FALSE(fleet_.add_gpu(2, "Nobody", 10));
  ASSERT_EQ(visible().size(), 4U);
  EXPECT_EQ(backend_->open(1).name, "Another");
  EXPECT_NE(backend_->open(1).id, all_[1].id);
  EXPECT_EQ(backend_->open(2), all_[2]);
}

TEST_F(FakeBackendTest, MetricsOmitRemovedGpus) {
  RecordProperty("contract", "C2 C16");
  fleet_.remove_gpu(1);
  fleet_.set_temperature(2, 55);
  const auto metrics = fleet_.collect_metrics();
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[1].device_id, 2U);
  EXPECT_EQ(metrics[1].temperature_celsius, 55);
}

TEST_F(FakeBackendTest, CopiesShareOneFleet) {
  RecordProperty("contract", "A15");
  FakeFleet copy = fleet_;
  copy.set_temperature(0, 77);
  EXPECT_EQ(number(0, Metric::temperature_core), 77);
}

TEST_F(FakeBackendTest, MissingDriverGivesErrorAndNoGpus) {
  const Error error = init_error("Driver Not Loaded");
  EXPECT_EQ(FakeFleet::without_driver(error).backend()->start().error(), error);
}

TEST_F(FakeBackendTest, AFleetMayBeEmpty) {
  const auto session = FakeFleet::with_healthy_gpus(0, kMemory).backend()->start();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->gpu_count, 0U);
}

TEST_F(FakeBackendTest, ABlockedGpuAnswersOnceItIsUnblocked) {
  fleet_.block(0);
  Sample sample;
  {
    const std::jthread reader([&] { sample = read(0); });
    EXPECT_EQ(number(1, Metric::temperature_core), 40);  // the others answer meanwhile
    fleet_.set_temperature(0, 50);
    fleet_.unblock(0);
  }
  EXPECT_EQ(*sample.number(Metric::temperature_core), 50);
}

TEST_F(FakeBackendTest, RemovingBlockedGpuUnblocksReader) {
  fleet_.block(0);
  Sample sample;
  {
    const std::jthread reader([&] { sample = read(0); });
    fleet_.remove_gpu(0);
  }
  EXPECT_NE(find_loss(sample), nullptr);
}

TEST_F(FakeBackendTest, MayBeChangedWhileItIsRead) {
  constexpr int kRounds = 500;
  int wrong = 0;
  {
    const std::jthread writer([&] {
      for (int i = 0; i < kRounds; ++i) fleet_.set_memory_used(0, i);
    });
    for (int i = 0; i < kRounds; ++i) {
      const Sample sample = read(0);
      const auto sum = *sample.number(Metric::memory_used) + *sample.number(Metric::memory_free);
      if (sum != kMemory) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(FakeBackend, EventsOfKnownGpusAreReturnedInOrder) {
  auto fleet = FakeFleet::with_healthy_gpus(2, 1000);
  fleet.raise_event(0, EventKind::xid, 13);  // before the backend exists
  const auto backend = fleet.backend();
  fleet.raise_event(1, EventKind::xid, 79);
  fleet.raise_event(0, EventKind::ecc_corrected);
  fleet.raise_event(9, EventKind::xid, 79);  // of no GPU
  const auto first = backend->next_event(Duration::zero());
  ASSERT_TRUE(first.ok() && *first);
  EXPECT_EQ((*first)->device, fleet.inventory().devices[1].id);
  EXPECT_EQ((*first)->xid, 79U);
  EXPECT_EQ((*backend->next_event(Duration::zero()))->kind, EventKind::ecc_corrected);
  EXPECT_FALSE(*backend->next_event(Duration::zero()));
}

}  // namespace
}  // namespace gpuyard
