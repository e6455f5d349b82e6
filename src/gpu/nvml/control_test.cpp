#include "gpu/nvml/control.h"

#include <unistd.h>

#include <climits>

#include <gtest/gtest.h>

#include "gpu/nvml/api.h"
#include "gpu/nvml/fake_nvml_for_tests.h"
#include "gpu/nvml/nvml_backend.h"

namespace gpuyard::nvml {
namespace {

using Calls = std::vector<std::string>;

constexpr SettingKind kKinds[] = {SettingKind::power_limit,   SettingKind::gpu_clocks,
                                  SettingKind::memory_clocks, SettingKind::persistence,
                                  SettingKind::compute_mode,  SettingKind::ecc};

const Setting kSettings[] = {power_limit(300'000),
                             gpu_clocks(1200, 1500),
                             unlocked(SettingKind::gpu_clocks),
                             memory_clocks(1593, 2619),
                             unlocked(SettingKind::memory_clocks),
                             persistence(true),
                             compute_mode(3),
                             ecc(false)};

class NvmlControl : public ::testing::Test {
 protected:
  Result<SettingState> read(SettingKind kind) { return read_device_setting(api_, device_, kind); }
  Result<void> apply(const Setting& setting) {
    return write_device_setting(api_, device_, setting);
  }

  Api api_ = settable_api();
  DeviceHandle device_ = handle_of(0);
};

TEST_F(NvmlControl, PowerLimitIncludesDefaultAndRange) {
  EXPECT_EQ(*read(SettingKind::power_limit), (SettingState{SettingValue{700'000, 700'000},
                                                           SettingValue{650'000, 650'000},
                                                           SettingValue{200'000, 700'000},
                                                           {}}));
}

// Locked clocks cannot be read; only their range is known.
TEST_F(NvmlControl, ClockRangeSpansAllMemoryClocks) {
  EXPECT_EQ(*read(SettingKind::gpu_clocks), (SettingState{{}, {}, SettingValue{210, 1980}, {}}));
  EXPECT_EQ(*read(SettingKind::memory_clocks),
            (SettingState{{}, {}, SettingValue{1593, 2619}, {}}));
}

TEST_F(NvmlControl, ALongListOfClocksIsReadWhole) {
  settings.graphics_clocks.clear();
  for (unsigned mhz = 3000; mhz > 1500; --mhz) settings.graphics_clocks.push_back(mhz);
  EXPECT_EQ(read(SettingKind::gpu_clocks)->allowed, (SettingValue{210, 3000}));
}

TEST_F(NvmlControl, UnsupportedClockQueryLeavesRangeOpen) {
  fake.codes["memory_clocks"] = kNotSupported;
  EXPECT_EQ(*read(SettingKind::gpu_clocks), SettingState{});
  EXPECT_EQ(*read(SettingKind::memory_clocks), SettingState{});
}

TEST_F(NvmlControl, ModesAreRead) {
  settings.persistence = 1;
  settings.compute_mode = 3;
  EXPECT_EQ(read(SettingKind::persistence)->now, (SettingValue{1, 1}));
  EXPECT_EQ(read(SettingKind::compute_mode)->now, (SettingValue{3, 3}));
}

TEST_F(NvmlControl, PendingEccShowsRequestedAndCurrentMode) {
  EXPECT_EQ(*read(SettingKind::ecc),
            (SettingState{SettingValue{1, 1}, SettingValue{1, 1}, {}, {}}));
  settings.ecc_pending = 0;
  EXPECT_EQ(*read(SettingKind::ecc),
            (SettingState{SettingValue{0, 0}, SettingValue{1, 1}, {}, SettingValue{1, 1}}));
}

TEST_F(NvmlControl, UnavailableDefaultsAndLimitsStayEmpty) {
  fake.codes = {
      {"default_limit", kNotSupported}, {"constraints", kUnknown}, {"default_ecc", kUnknown}};
  fake.limit_mw = UINT_MAX;
  EXPECT_EQ(*read(SettingKind::power_limit), SettingState{});
  EXPECT_FALSE(read(SettingKind::ecc)->by_default);
}

TEST_F(NvmlControl, EverySettingReachesItsSetterWithItsNumbers) {
  RecordProperty("contract", "B2 B15 E14");
  for (const Setting& setting : kSettings) EXPECT_TRUE(apply(setting).ok()) << text_of(setting);
  EXPECT_TRUE(clear_ecc_counter(api_, device_, EccCounter::since_load).ok());
  EXPECT_TRUE(clear_ecc_counter(api_, device_, EccCounter::lifetime).ok());
  EXPECT_EQ(
      settings.calls,
      (Calls{"set_power_limit 300000", "set_gpu_clocks 1200 1500", "reset_gpu_clocks",
             "set_memory_clocks 1593 2619", "reset_memory_clocks", "set_persistence_mode 1",
             "set_compute_mode 3", "set_ecc_mode 0", "clear_ecc_counts 0", "clear_ecc_counts 1"}));
}

TEST_F(NvmlControl, TheTotalEnergyIsMillijoules) {
  RecordProperty("contract", "B2 B3");
  EXPECT_EQ(*read_total_energy(api_, device_), 123'456'789);
  fake.energy_mj = ULLONG_MAX;
  EXPECT_EQ(read_total_energy(api_, device_).error().message, "reading the total energy: No data");
}

TEST_F(NvmlControl, ErrorNamesOperationAndNvmlText) {
  RecordProperty("contract", "B17");
  fake.codes = {{"set_power_limit", kNoPermission},
                {"reset_gpu_clocks", kNotSupported},
                {"get_persistence", kGpuIsLost},
                {"clear_ecc_counts", kInUse}};
  EXPECT_EQ(apply(power_limit(300'000)).error(),
            (Error{Errc::denied, "setting the power limit to 300 W: Insufficient Permissions"}));
  EXPECT_EQ(apply(unlocked(SettingKind::gpu_clocks)).error(),
            (Error{Errc::unsupported, "resetting the GPU clocks: Not Supported"}));
  EXPECT_EQ(read(SettingKind::persistence).error(),
            (Error{Errc::device_lost, "reading the persistence mode: GPU is lost"}));
  EXPECT_EQ(clear_ecc_counter(api_, device_, EccCounter::lifetime).error(),
            (Error{Errc::conflict, "clearing the aggregate ECC errors: In use by another client"}));
}

// Gives the same answer to every call.
TEST_F(NvmlControl, EveryReturnCodeKeepsItsMeaningThroughEveryCall) {
  RecordProperty("contract", "B17");
  const Api api = uniform_api();
  std::vector<ReturnCode> codes = {kUnknown, 777};
  for (ReturnCode code = kUninitialized; code <= kResetTypeNotSupported; ++code) {
    codes.push_back(code);
  }
  for (const ReturnCode code : codes) {
    uniform_code = code;
    const auto keeps_its_meaning = [&](const auto& result) {
      ASSERT_FALSE(result.ok()) << code;
      EXPECT_EQ(result.error().code, errc_of(code));
      EXPECT_TRUE(result.error().message.ends_with(text_of(code))) << result.error().message;
    };
    for (const Setting& setting : kSettings)
      keeps_its_meaning(write_device_setting(api, device_, setting));
    keeps_its_meaning(clear_ecc_counter(api, device_, EccCounter::since_load));
    keeps_its_meaning(read_total_energy(api, device_));
    for (const SettingKind kind : kKinds) {
      const bool only_a_range = !can_be_read(kind) && errc_of(code) == Errc::unsupported;
      const auto seen = read_device_setting(api, device_, kind);
      if (!only_a_range) {
        keeps_its_meaning(seen);
      } else {
        EXPECT_EQ(*seen, SettingState{});
      }
    }
  }
}

TEST_F(NvmlControl, MissingSetterDisablesItsSettingOnly) {
  RecordProperty("contract", "B17");
  api_.set_memory_clocks = {};
  EXPECT_EQ(apply(memory_clocks(1593, 2619)).error().code, Errc::unsupported);
  EXPECT_TRUE(apply(power_limit(300'000)).ok());
}

TEST_F(NvmlControl, OverflowingValueIsInvalidWithoutDriverCall) {
  constexpr std::int64_t kWraps = (std::int64_t{1} << 32U) + 300'000;
  EXPECT_EQ(apply(power_limit(kWraps)).error().code, Errc::invalid);
  EXPECT_EQ(apply(gpu_clocks(-1, 1500)).error().code, Errc::invalid);
  EXPECT_EQ(settings.calls, Calls{});
}

class NvmlBackendControl : public NvmlControl {
 protected:
  void SetUp() override {
    ASSERT_TRUE(backend_.start().ok());
    ASSERT_FALSE(backend_.open(0).fault);
  }
  NvmlBackend backend_{{api_, ""}};
};

TEST_F(NvmlBackendControl, AGpuThatIsOpenObeys) {
  RecordProperty("contract", "B1");
  EXPECT_EQ(backend_.read_setting("GPU-0", SettingKind::power_limit)->now,
            (SettingValue{700'000, 700'000}));
  EXPECT_TRUE(backend_.apply("GPU-0", power_limit(300'000)).ok());
  EXPECT_TRUE(backend_.clear_ecc("GPU-0", EccCounter::lifetime).ok());
  EXPECT_EQ(*backend_.total_energy("GPU-0"), 123'456'789);
  EXPECT_EQ(settings.calls, (Calls{"set_power_limit 300000", "clear_ecc_counts 1"}));
}

TEST_F(NvmlBackendControl, UnopenedGpuIsNotFoundWithoutDriverCall) {
  const Error why{Errc::not_found, "no GPU GPU-1 is open"};
  EXPECT_EQ(backend_.read_setting("GPU-1", SettingKind::power_limit).error(), why);
  EXPECT_EQ(backend_.apply("GPU-1", power_limit(300'000)).error(), why);
  EXPECT_EQ(backend_.clear_ecc("GPU-1", EccCounter::lifetime).error(), why);
  EXPECT_EQ(backend_.total_energy("GPU-1").error(), why);
  EXPECT_EQ(settings.calls, Calls{});
}

// The operator of a simulated GPU decides at each call.
TEST(SimulatedNvmlControl, UnprivilegedUserIsAllowed) {
  NvmlBackend simulated({settable_api(), "", true});
  EXPECT_TRUE(simulated.check_control().ok());
}

}  // namespace

namespace {

TEST(Privilege, MissingCapabilityErrorExplainsRemedy) {
  RecordProperty("contract", "E15");
  const auto may = check_privilege({1000, false});
  ASSERT_FALSE(may.ok());
  EXPECT_EQ(may.error().code, Errc::denied);
  for (const char* word : {"CAP_SYS_ADMIN", "uid 1000", "root", "AmbientCapabilities"}) {
    EXPECT_NE(may.error().message.find(word), std::string::npos) << word;
  }
}

TEST(Privilege, TheCapabilityIsEnoughAndSoIsRoot) {
  EXPECT_TRUE(check_privilege({1000, true}).ok());
  EXPECT_TRUE(check_privilege({0, false}).ok());
}

TEST(Privilege, EffectiveUidComesFromKernel) {
  EXPECT_EQ(effective_privilege().uid, ::geteuid());
}

}  // namespace
}  // namespace gpuyard::nvml
