#include "gpu/device/snapshot.h"

#include <random>

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"
#include "gpu/device/device.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard {
namespace {

const ProbeSet kProbes = {Probe::temperature, Probe::power};
constexpr TimePoint kTaken{std::chrono::seconds(100)};

Snapshot three_gpus() {
  Snapshot snapshot;
  snapshot.taken = kTaken;
  snapshot.driver = {true, "", {"535.104.05", "12.2", "", "libnvidia-ml.so.1"}};
  for (DeviceInfo& info : FakeFleet::with_healthy_gpus(3, 1000).inventory().devices) {
    snapshot.devices.push_back({std::move(info), DeviceCondition::responsive, "", {}});
  }
  return snapshot;
}

DeviceInfo one_gpu() {
  return three_gpus().devices.front().info;
}

TEST(DeviceState, AGpuThatAnswersIsResponsive) {
  Sample answer;
  answer.set({Metric::temperature_core, 0, kTaken, std::int64_t{40}});
  const DeviceState state = device_state(one_gpu(), answer, kProbes, kTaken);
  EXPECT_EQ(state.condition, DeviceCondition::responsive);
  EXPECT_EQ(state.why, "");
  EXPECT_EQ(state.sample, answer);
}

TEST(DeviceState, UnansweredReadIsUnresponsiveAndTimedOut) {
  const DeviceState state = device_state(one_gpu(), std::nullopt, kProbes, kTaken);
  EXPECT_EQ(state.condition, DeviceCondition::unresponsive);
  EXPECT_EQ(state.why, "the driver did not respond in time");
  EXPECT_EQ(state.sample, missing_sample(kProbes, {MissingReason::timed_out, ""}, kTaken));
}

TEST(DeviceState, UnopenedGpuIsUnavailableWithDriverText) {
  DeviceInfo info = one_gpu();
  info.fault = Missing{MissingReason::failed, "Unknown Error"};
  const DeviceState state = device_state(info, std::nullopt, kProbes, kTaken);
  EXPECT_EQ(state.condition, DeviceCondition::unavailable);
  EXPECT_EQ(state.why, "Unknown Error");
  EXPECT_EQ(state.sample, missing_sample(kProbes, *info.fault, kTaken));
}

TEST(DeviceState, AllReadingsLostIsUnavailable) {
  const Missing gone{MissingReason::device_lost, "GPU is lost"};
  const DeviceState state =
      device_state(one_gpu(), missing_sample(kProbes, gone, kTaken), kProbes, kTaken);
  EXPECT_EQ(state.condition, DeviceCondition::unavailable);
  EXPECT_EQ(state.why, "GPU is lost");
}

TEST(DeviceState, OneSuccessfulReadingIsResponsive) {
  Sample answer = missing_sample(kProbes, {MissingReason::device_lost, ""}, kTaken);
  answer.set({Metric::temperature_core, 0, kTaken, std::int64_t{40}});
  EXPECT_EQ(device_state(one_gpu(), answer, kProbes, kTaken).condition,
            DeviceCondition::responsive);
}

TEST(DeviceState, EmptySampleIsNoLoss) {
  EXPECT_EQ(find_loss({}), nullptr);
}

TEST(FindDevice, MatchesIndexUuidAndBothPciSpellings) {
  const Snapshot snapshot = three_gpus();
  const DeviceState* second = &snapshot.devices[1];
  for (const std::string name :
       {"1", "GPU-00000000-0000-4000-8000-000000000001", "0000:02:00.0", "00000000:02:00.0"}) {
    const auto found = find_device(snapshot, name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(*found, second) << name;
  }
}

TEST(FindDevice, NameMatchesNodeIndexNotListPosition) {
  Snapshot snapshot = three_gpus();
  snapshot.devices.erase(snapshot.devices.begin());
  EXPECT_EQ((*find_device(snapshot, "2"))->info.index, 2U);
  EXPECT_FALSE(find_device(snapshot, "0"));
}

TEST(FindDevice, AnIndexTooHighIsOutOfRange) {
  EXPECT_EQ(find_device(three_gpus(), "3").error(),
            (Error{Errc::not_found, "GPU index 3 is out of range"}));
}

TEST(FindDevice, UnknownNameIsNotFound) {
  Snapshot snapshot = three_gpus();
  snapshot.devices[0].info.uuid.clear();  // like a GPU that could not be opened
  snapshot.devices[0].info.pci_address.clear();
  for (const char* name : {"", "-1", "1x", " 1", "+1", "GPU-", "99999999999", "0000:09:00.0"}) {
    EXPECT_EQ(find_device(snapshot, name).error().code, Errc::not_found) << name;
  }
}

TEST(FindDevice, AnyBytesAreAGpuOrNotFound) {
  constexpr std::string_view kPieces = "0123456789:.GPU-abcdef\xFF";
  const Snapshot snapshot = three_gpus();
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string name(random() % 20, '0');
    for (char& c : name) c = kPieces[random() % kPieces.size()];
    const auto found = find_device(snapshot, name);
    EXPECT_TRUE(found.ok() || found.error().code == Errc::not_found) << name;
  }
}

TEST(PciAddress, LongNvmlDomainBecomesShort) {
  EXPECT_EQ(short_pci_address("00000000:01:00.0"), "0000:01:00.0");
  EXPECT_EQ(short_pci_address("0000ABCD:0A:1F.7"), "abcd:0a:1f.7");
  EXPECT_EQ(short_pci_address("0000:01:00.0"), "0000:01:00.0");
}

TEST(PciAddress, OversizedDomainKeepsItsDigits) {
  EXPECT_EQ(short_pci_address("00010000:01:00.0"), "00010000:01:00.0");
}

TEST(PciAddress, InvalidTextIsUnchanged) {
  EXPECT_EQ(short_pci_address(""), "");
  EXPECT_EQ(short_pci_address("GPU-1"), "GPU-1");
}

// The driver still returns the VBIOS version of a GPU that requires a reset.
TEST(Snapshot, GpuRequiringResetIsLostDespiteVbiosVersion) {
  const Missing gone{MissingReason::device_lost, "GPU requires reset"};
  Sample answer = missing_sample(probes_of(Tier::fast), gone, kTaken);
  answer.set({Metric::vbios_version, 0, kTaken, std::string("96.00")});
  ASSERT_NE(find_loss(answer), nullptr);
  EXPECT_FALSE(is_inconclusive(answer));
  Sample name_only;
  name_only.set({Metric::vbios_version, 0, kTaken, std::string("96.00")});
  EXPECT_EQ(find_loss(name_only), nullptr);
  EXPECT_TRUE(is_inconclusive(name_only));
}

}  // namespace

namespace {

TEST(Failures, ListsEachCauseOnceWithoutUnsupported) {
  const Missing lost{MissingReason::device_lost, "GPU is lost"};
  const Missing unknown{MissingReason::failed, "Unknown Error"};
  Sample sample;
  sample.set({Metric::memory_used, 0, {}, lost});
  sample.set({Metric::memory_free, 0, {}, lost});
  sample.set({Metric::utilization_gpu, 0, {}, Missing{MissingReason::not_supported, ""}});
  sample.set({Metric::temperature_core, 0, {}, unknown});
  sample.set({Metric::power_draw, 0, {}, Missing{MissingReason::not_ready, ""}});
  sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
  EXPECT_EQ(failures(sample), (std::vector<Missing>{lost, unknown}));
}

}  // namespace

namespace {

constexpr ProbeSet kPowerOnly = {Probe::power};

DeviceState answering(MissingReason reason) {
  return device_state({}, missing_sample(kPowerOnly, {reason, ""}, {}), kPowerOnly, {});
}

DeviceState failing_to_open(MissingReason reason) {
  DeviceInfo info;
  info.fault = Missing{reason, ""};
  return device_state(info, {}, kPowerOnly, {});
}

TEST(IsLost, DriverDeviceLostReasonCounts) {
  EXPECT_TRUE(is_lost(answering(MissingReason::device_lost)));
  EXPECT_TRUE(is_lost(failing_to_open(MissingReason::device_lost)));
}

TEST(IsLost, EarlierSlowReadingDoesNotHideLoss) {
  DeviceState gone = answering(MissingReason::device_lost);
  gone.sample.set({Metric::memory_total, 0, {}, std::int64_t{80}});
  EXPECT_TRUE(is_lost(gone));
}

TEST(IsLost, UnresponsiveGpuIsNotLost) {
  DeviceState hung = device_state({}, {}, kPowerOnly, {});
  hung.health.verdict = Health::unhealthy;
  EXPECT_FALSE(is_lost(hung));
  EXPECT_FALSE(is_lost(failing_to_open(MissingReason::timed_out)));
  EXPECT_FALSE(is_lost(answering(MissingReason::failed)));
}

}  // namespace
}  // namespace gpuyard
