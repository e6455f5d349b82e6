#include "gpu/nvml/gpu_reader.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {
namespace {

constexpr ThrottleTimeFields kFields = {1, 2, 3};
DeviceHandle device() {
  return handle_of(0);
}

// Reads some probes once, with a reader that has no state.
Sample read(const Api& api, ProbeSet probes, const ThrottleTimeFields& fields = kFields) {
  return GpuReader(api, device(), fields).read(probes);
}

Missing why(const Sample& sample, Metric metric, std::uint16_t index = 0) {
  const Reading* reading = sample.find(metric, index);
  if (reading == nullptr || reading->missing() == nullptr)
    return {MissingReason::failed, "a value"};
  return *reading->missing();
}

// True for codes that a probe does not treat as a failure.
bool is_expected_code(Probe probe, ReturnCode code) {
  if (probe == Probe::retired_pages) return code == kInsufficientSize;  // "there are so many"
  if (probe == Probe::ecc_places) return code == kInvalidArgument;      // "there is no such place"
  return false;
}

TEST(GpuReader, EveryErrorCodeBecomesMissingReason) {
  const Api api = uniform_api();
  ProbeSet::all().each([&](Probe probe) {
    for (ReturnCode code = kUninitialized; code <= kResetTypeNotSupported; ++code) {
      if (is_expected_code(probe, code)) continue;
      uniform_code = code;
      const Sample sample = read(api, {probe});
      for (const Metric metric : row_of(probe).fills) {
        const Missing missing = why(sample, metric);
        EXPECT_EQ(missing.reason, missing_reason_of(code)) << row_of(metric).key << " " << code;
        EXPECT_TRUE(missing.detail.starts_with(text_of(code))) << missing.detail;
      }
    }
  });
}

TEST(GpuReader, EmptyApiGivesNotSupported) {
  const Api nothing;
  const Sample sample = read(nothing, ProbeSet::all());
  for (const Reading& reading : sample.readings()) {
    ASSERT_NE(reading.missing(), nullptr) << row_of(reading.metric).key;
    EXPECT_EQ(reading.missing()->reason, MissingReason::not_supported);
  }
  ASSERT_TRUE(sample.processes());
  EXPECT_EQ(sample.processes()->processes(), nullptr);
}

TEST(GpuReader, EveryProbeFillsEachOfItsRows) {
  uniform_code = kUnknown;
  const Sample sample = read(uniform_api(), ProbeSet::all());
  for (const ProbeRow& probe : probes()) {
    for (const Metric metric : probe.fills) {
      EXPECT_NE(sample.find(metric), nullptr) << row_of(metric).key;
    }
  }
}

TEST(GpuReader, UnsupportedProbeIsNotRetriedSoon) {
  static int asked = 0;
  asked = 0;
  Api api;
  api.encoder_utilization.function = [](DeviceHandle, unsigned*, unsigned*) {
    ++asked;
    return kNotSupported;
  };
  GpuReader reader(api, device(), kFields);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(why(reader.read({Probe::encoder}), Metric::utilization_encoder).reason,
              MissingReason::not_supported);
  }
  EXPECT_EQ(asked, 1);
}

TEST(SupportCache, UnsupportedMetricIsRetriedAfterDelay) {
  SupportCache memory;
  constexpr TimePoint kNow{std::chrono::seconds(100)};
  EXPECT_FALSE(memory.is_unsupported(Metric::gpm_sm, kNow));
  memory.record_unsupported(Metric::gpm_sm, kNow);
  EXPECT_TRUE(memory.is_unsupported(Metric::gpm_sm, kNow));
  EXPECT_FALSE(memory.is_unsupported(Metric::gpm_dram, kNow));
  EXPECT_FALSE(memory.is_unsupported(Metric::gpm_sm, kNow + SupportCache::kRetryDelay));
}

TEST(GpuReader, MemoryV2ReportsReservedMemory) {
  Api api;
  api.memory_info_v2.function = [](DeviceHandle, MemoryV2* out) {
    EXPECT_EQ(out->version, 0x02000028U);
    out->total = 1000, out->reserved = 100, out->free = 600, out->used = 300;
    return kSuccess;
  };
  const Sample sample = read(api, {Probe::memory});
  EXPECT_EQ(*sample.number(Metric::memory_used), 400);
  EXPECT_EQ(*sample.number(Metric::memory_reserved), 100);
}

TEST(GpuReader, UnsupportedMemoryNamesUnifiedMemory) {
  Api api;
  api.memory_info_v2.function = [](DeviceHandle, MemoryV2*) { return kNotSupported; };
  const Sample sample = read(api, {Probe::memory});
  EXPECT_EQ(why(sample, Metric::memory_total),
            (Missing{MissingReason::not_supported,
                     "Not Supported; a GPU with unified memory uses the system's memory"}));
}

TEST(GpuReader, AnOlderLibrarysMemoryLacksOnlyTheReserve) {
  RecordProperty("contract", "A6 E2");
  const Sample sample = read(healthy_api(), {Probe::memory});
  EXPECT_EQ(*sample.number(Metric::memory_used), 20LL << 30U);
  EXPECT_EQ(why(sample, Metric::memory_reserved).reason, MissingReason::not_supported);
}

TEST(GpuReader, EachFanHasItsReading) {
  Api api;
  api.fan_count.function = [](DeviceHandle, unsigned* out) { return *out = 2, kSuccess; };
  api.fan_speed.function = [](DeviceHandle, unsigned fan, unsigned* out) {
    return *out = 30 + fan, kSuccess;
  };
  const Sample sample = read(api, {Probe::fans});
  EXPECT_EQ(*sample.number(Metric::fan_speed, 0), 30);
  EXPECT_EQ(*sample.number(Metric::fan_speed, 1), 31);
  EXPECT_EQ(sample.all(Metric::fan_speed).size(), 2U);
}

TEST(GpuReader, AbsentFanIsNotSupported) {
  Api api;
  api.fan_count.function = [](DeviceHandle, unsigned* out) { return *out = 0, kSuccess; };
  EXPECT_EQ(why(read(api, {Probe::fans}), Metric::fan_speed).reason, MissingReason::not_supported);
}

TEST(GpuReader, AnOldLibraryKnowsTheFirstFanOnly) {
  Api api;
  api.first_fan_speed.function = [](DeviceHandle, unsigned* out) { return *out = 44, kSuccess; };
  EXPECT_EQ(*read(api, {Probe::fans}).number(Metric::fan_speed), 44);
}

TEST(GpuReader, NumaNodeHasNearestMemory) {
  Api api;
  api.numa_node.function = [](DeviceHandle, unsigned* out) { return *out = 9, kSuccess; };
  EXPECT_EQ(*read(api, {Probe::inventory}).number(Metric::numa_node), 9) << "of its own memory";
  api.memory_affinity.function = [](DeviceHandle, unsigned words, unsigned long* nodes, unsigned) {
    EXPECT_GE(words, 2U);
    nodes[1] = 1UL << 3U;
    return kSuccess;
  };
  EXPECT_EQ(*read(api, {Probe::inventory}).number(Metric::numa_node), 67);
  api.memory_affinity.function = [](DeviceHandle, unsigned, unsigned long* nodes, unsigned) {
    return nodes[0] = 3, kSuccess;
  };
  EXPECT_EQ(*read(api, {Probe::inventory}).number(Metric::numa_node), 9) << "two are as near";
}

TEST(GpuReader, LinkRowsEndAtLastKnownLink) {
  Api api;
  api.nvlink_state.function = [](DeviceHandle, unsigned link, unsigned* out) {
    if (link >= 12) return kInvalidArgument;
    return *out = link == 3 ? 0 : 1, kSuccess;
  };
  const Sample sample = read(api, {Probe::nvlink_state});
  EXPECT_EQ(sample.all(Metric::nvlink_active).size(), 12U);
  EXPECT_EQ(*sample.number(Metric::nvlink_active, 3), 0);
}

TEST(GpuReader, PlacesThatCountNoErrorsAreLeftOut) {
  Api api;
  api.memory_error_counter.function = [](DeviceHandle, unsigned, unsigned, unsigned place,
                                         unsigned long long* out) {
    if (place != 1 && place != 7) return kNotSupported;
    return *out = place, kSuccess;
  };
  const Sample sample = read(api, {Probe::ecc_places});
  EXPECT_EQ(sample.all(Metric::ecc_uncorrected_aggregate_at).size(), 2U);
  EXPECT_EQ(*sample.number(Metric::ecc_uncorrected_aggregate_at, 7), 7);
}

TEST(GpuReader, RetiredPagesAreCountedWithoutAddresses) {
  Api api;
  api.retired_pages.function = [](DeviceHandle, unsigned cause, unsigned* count,
                                  unsigned long long* addresses) {
    EXPECT_EQ(addresses, nullptr);
    *count = cause == kRetiredDoubleBit ? 3 : 0;
    return cause == kRetiredDoubleBit ? kInsufficientSize : kSuccess;
  };
  const Sample sample = read(api, {Probe::retired_pages});
  EXPECT_EQ(*sample.number(Metric::retired_pages_single_bit), 0);
  EXPECT_EQ(*sample.number(Metric::retired_pages_double_bit), 3);
}

TEST(GpuReader, UnknownPerformanceStateIsFailed) {
  Api api;
  api.performance_state.function = [](DeviceHandle, int* out) { return *out = 32, kSuccess; };
  EXPECT_EQ(why(read(api, {Probe::performance_state}), Metric::performance_state).reason,
            MissingReason::failed);
}

Api with_power(unsigned milliwatts) {
  static unsigned answer = 0;
  answer = milliwatts;
  Api api;
  api.power_usage.function = [](DeviceHandle, unsigned* out) { return *out = answer, kSuccess; };
  api.power_limit_constraints.function = [](DeviceHandle, unsigned* least, unsigned* most) {
    return *least = 100'000, *most = 700'000, kSuccess;
  };
  return api;
}

TEST(GpuReader, AnImpossiblePowerIsMissing) {
  const Api api = with_power(4'000'000'000);
  const Missing found = why(read(api, {Probe::power}), Metric::power_draw);
  EXPECT_EQ(found, (Missing{MissingReason::failed, kImplausible}));
}

TEST(GpuReader, PowerFarAboveMaxLimitIsMissing) {
  EXPECT_EQ(why(read(with_power(2'100'001), {Probe::power}), Metric::power_draw).detail,
            kImplausible);
  const Sample spike = read(with_power(2'100'000), {Probe::power});
  EXPECT_EQ(*spike.number(Metric::power_draw), 2'100'000);
  EXPECT_EQ(spike.find(Metric::power_limit_max), nullptr) << "it was not asked for";
}

TEST(GpuReader, WithoutALimitPowerHasTheCatalogsBound) {
  Api api = with_power(9'000'000);
  api.power_limit_constraints.function = nullptr;
  EXPECT_EQ(*read(api, {Probe::power}).number(Metric::power_draw), 9'000'000);
}

TEST(GpuReader, AMaskKeepsAllItsBits) {
  Api api;
  static unsigned long long bits = 0;
  api.throttle_reasons.function = [](DeviceHandle, unsigned long long* out) {
    return *out = bits, kSuccess;
  };
  for (const unsigned long long mask :
       {0x8000000000000000ULL, 0x8000000000000040ULL, 0xFFFFFFFFULL, ~0ULL}) {
    bits = mask;
    const Sample sample = read(api, {Probe::throttle_reasons});
    ASSERT_NE(sample.number(Metric::throttle_reasons), nullptr) << mask;
    EXPECT_EQ(static_cast<unsigned long long>(*sample.number(Metric::throttle_reasons)), mask);
  }
}

TEST(GpuReader, AllOnesInLargerTypeAreImplausible) {
  Api api;
  static unsigned long long count = 0;
  api.total_ecc_errors.function = [](DeviceHandle, unsigned, unsigned, unsigned long long* out) {
    return *out = count, kSuccess;
  };
  for (const unsigned long long answer : {0xFFFFFFFFULL, ~0ULL, 1ULL << 63U, 1ULL << 50U}) {
    count = answer;
    const Sample sample = read(api, {Probe::ecc_totals});
    EXPECT_EQ(why(sample, Metric::ecc_corrected_volatile).detail, kImplausible) << answer;
  }
}

TEST(GpuReader, FieldValuesHaveIndependentCodesAndTypes) {
  Api api;
  api.field_values.function = [](DeviceHandle, int count, FieldValue* values) {
    EXPECT_EQ(count, 2);
    EXPECT_EQ(values[0].scope_id, ~0U);
    values[0].code = kSuccess;
    values[0].value_type = kValueUnsignedLongLong;
    values[0].value = 5'000'000'000ULL;
    values[1].code = kNoPermission;
    return kSuccess;
  };
  const Sample sample = read(api, {Probe::nvlink_traffic});
  EXPECT_EQ(*sample.number(Metric::nvlink_tx), 5'000'000'000LL * 1024);
  EXPECT_EQ(why(sample, Metric::nvlink_rx).reason, MissingReason::no_permission);
}

TEST(GpuReader, OnlyTheBytesOfAFieldsTypeCount) {
  Api api;
  api.field_values.function = [](DeviceHandle, int, FieldValue* values) {
    values[0].code = kSuccess;
    values[0].value_type = kValueUnsigned;
    values[0].value = 0xDEADBEEF00000000ULL | 77U;  // a union's other half is not written
    return kSuccess;
  };
  EXPECT_EQ(*read(api, {Probe::memory_temperature}).number(Metric::temperature_memory), 77);
}

TEST(GpuReader, OmittedFieldIsNotZero) {
  Api api;
  api.field_values.function = [](DeviceHandle, int, FieldValue*) { return kSuccess; };
  EXPECT_EQ(why(read(api, {Probe::power_fields}), Metric::power_draw_instant).reason,
            MissingReason::not_ready);
}

TEST(GpuReader, LibraryOlderThanAFieldDoesNotSupportIt) {
  Api api;
  api.field_values.function = [](DeviceHandle, int, FieldValue* values) {
    values[0].code = kInvalidArgument;
    return kSuccess;
  };
  EXPECT_EQ(why(read(api, {Probe::modes}), Metric::recovery_action).reason,
            MissingReason::not_supported);
}

TEST(GpuReader, RecoveryActionIsReadFromItsField) {
  Api api;
  api.field_values.function = [](DeviceHandle, int count, FieldValue* values) {
    EXPECT_EQ(count, 1);
    EXPECT_EQ(values[0].field_id, 230U);
    values[0].code = kSuccess;
    values[0].value_type = kValueUnsigned;
    values[0].value = kRecoveryDrainP2p;
    return kSuccess;
  };
  EXPECT_EQ(*read(api, {Probe::modes}).number(Metric::recovery_action), 3);
}

TEST(ThrottleTimeFields, MovedBetweenVersionsOfTheLibrary) {
  EXPECT_FALSE(throttle_time_fields(0).is_known());
  EXPECT_FALSE(throttle_time_fields(12080).is_known());
  EXPECT_EQ(throttle_time_fields(12090).sw_thermal, 251U);
  EXPECT_EQ(throttle_time_fields(13000).power_brake, 253U);
  EXPECT_EQ(throttle_time_fields(13010).sw_thermal, 269U);
  EXPECT_EQ(throttle_time_fields(13020).power_brake, 271U);
}

TEST(GpuReader, UnknownLibrarySkipsMovedFields) {
  Api api;
  api.field_values.function = [](DeviceHandle, int, FieldValue*) {
    ADD_FAILURE() << "asked";
    return kSuccess;
  };
  const Sample sample = read(api, {Probe::throttle_times}, {});
  EXPECT_EQ(why(sample, Metric::throttle_time_hw_thermal).reason, MissingReason::not_supported);
}

TEST(GpuReader, KnownBrandIsNamedUnknownArchitectureIsNumber) {
  Api api;
  api.brand.function = [](DeviceHandle, unsigned* out) { return *out = 14, kSuccess; };
  api.architecture.function = [](DeviceHandle, unsigned* out) { return *out = 99, kSuccess; };
  api.compute_capability.function = [](DeviceHandle, int* major, int* minor) {
    return *major = 8, *minor = 9, kSuccess;
  };
  const Sample sample = read(api, {Probe::inventory});
  EXPECT_EQ(*sample.find(Metric::brand)->text(), "NVIDIA");
  EXPECT_EQ(*sample.find(Metric::architecture)->text(), "99");
  EXPECT_EQ(*sample.find(Metric::compute_capability)->text(), "8.9");
}

TEST(GpuReader, PcieTrafficIsInBytesPerSecond) {
  Api api;
  api.pcie_throughput.function = [](DeviceHandle, unsigned direction, unsigned* out) {
    return *out = direction == kPcieTx ? 4'000'000 : 7, kSuccess;
  };
  const Sample sample = read(api, {Probe::pcie_tx, Probe::pcie_rx});
  EXPECT_EQ(*sample.number(Metric::pcie_tx), 4'096'000'000);
  EXPECT_EQ(*sample.number(Metric::pcie_rx), 7 * 1024);
}

}  // namespace

namespace {

constexpr TimePoint kStart{std::chrono::seconds(100)};

// A driver whose samples are just numbers.
struct GpmDriver {
  std::array<char, 4> samples{};
  std::size_t allocated = 0;
  int freed = 0;
  ReturnCode get = kSuccess;
  double tensor = 12.3456;
  GpmSample older = nullptr;
  GpmSample newer = nullptr;
};
GpmDriver gpm_driver;

Api gpm_api() {
  gpm_driver = {};
  Api api;
  api.gpm_support.function = [](DeviceHandle, GpmSupport* out) {
    EXPECT_EQ(out->version, 1U);
    return out->supported = 1, kSuccess;
  };
  api.gpm_sample_alloc.function = [](GpmSample* out) {
    return *out = reinterpret_cast<GpmSample>(&gpm_driver.samples.at(gpm_driver.allocated++)),
           kSuccess;
  };
  api.gpm_sample_free.function = [](GpmSample) { return ++gpm_driver.freed, kSuccess; };
  api.gpm_sample_get.function = [](DeviceHandle, GpmSample) { return gpm_driver.get; };
  api.gpm_metrics_get.function = [](GpmMetricsGet* request) {
    gpm_driver.older = request->sample1;
    gpm_driver.newer = request->sample2;
    for (unsigned i = 0; i < request->count; ++i) {
      GpmMetric& metric = request->metrics[i];
      metric.value = metric.id == kGpmTensor ? gpm_driver.tensor : 1;
      metric.code = metric.id == kGpmFp64 ? kNotSupported : kSuccess;
    }
    return kSuccess;
  };
  return api;
}

class GpmTest : public ::testing::Test {
 protected:
  Sample read_after(Duration since_start) {
    Sample sample;
    gpm_.read(nullptr, Recorder(support_, sample, kStart + since_start));
    return sample;
  }
  static MissingReason why(const Sample& sample, Metric metric) {
    return sample.find(metric)->missing()->reason;
  }

  const Api api_ = gpm_api();
  SupportCache support_;
  Gpm gpm_{api_};
};

using std::chrono::milliseconds;

TEST_F(GpmTest, FirstSampleIsNotReady) {
  EXPECT_EQ(why(read_after(milliseconds(0)), Metric::gpm_tensor), MissingReason::not_ready);
}

TEST_F(GpmTest, BetweenTwoSamplesEachPipeHasItsShare) {
  read_after(milliseconds(0));
  const Sample sample = read_after(milliseconds(100));
  EXPECT_EQ(*sample.number(Metric::gpm_tensor), 12'346);
  EXPECT_EQ(*sample.number(Metric::gpm_sm), 1'000);
  EXPECT_EQ(why(sample, Metric::gpm_fp64), MissingReason::not_supported);
}

TEST_F(GpmTest, EarlyReadKeepsPreviousSample) {
  read_after(milliseconds(0));
  EXPECT_EQ(why(read_after(milliseconds(99)), Metric::gpm_tensor), MissingReason::not_ready);
  EXPECT_NE(read_after(milliseconds(100)).number(Metric::gpm_tensor), nullptr);
}

TEST_F(GpmTest, NewerSampleBecomesOlderAtNextRead) {
  read_after(milliseconds(0));
  read_after(milliseconds(100));
  const GpmSample newer = gpm_driver.newer;
  read_after(milliseconds(200));
  EXPECT_EQ(gpm_driver.older, newer);
  EXPECT_EQ(gpm_driver.allocated, 2U);
}

TEST_F(GpmTest, ValueOutsidePercentRangeIsFailed) {
  read_after(milliseconds(0));
  gpm_driver.tensor = std::nan("");
  EXPECT_EQ(why(read_after(milliseconds(100)), Metric::gpm_tensor), MissingReason::failed);
  gpm_driver.tensor = 100.5;
  EXPECT_EQ(why(read_after(milliseconds(200)), Metric::gpm_tensor), MissingReason::failed);
}

TEST_F(GpmTest, GpuLossDiscardsPreviousSample) {
  read_after(milliseconds(0));
  gpm_driver.get = kGpuIsLost;
  EXPECT_EQ(why(read_after(milliseconds(100)), Metric::gpm_dram), MissingReason::device_lost);
  gpm_driver.get = kSuccess;
  EXPECT_EQ(why(read_after(milliseconds(200)), Metric::gpm_dram), MissingReason::not_ready);
  EXPECT_NE(read_after(milliseconds(300)).number(Metric::gpm_dram), nullptr);
}

TEST(Gpm, GivesItsSamplesBack) {
  const Api api = gpm_api();
  {
    Gpm gpm(api);
    SupportCache support;
    Sample sample;
    gpm.read(nullptr, Recorder(support, sample, kStart));
    gpm.read(nullptr, Recorder(support, sample, kStart + std::chrono::seconds(1)));
  }
  EXPECT_EQ(gpm_driver.freed, 2);
}

TEST(Gpm, GpuBeforeHopperIsNotSupported) {
  Api api = gpm_api();
  api.gpm_support.function = [](DeviceHandle, GpmSupport* out) {
    return out->supported = 0, kSuccess;
  };
  Gpm gpm(api);
  SupportCache support;
  Sample sample;
  gpm.read(nullptr, Recorder(support, sample, kStart));
  for (const Metric metric : row_of(Probe::gpm).fills) {
    EXPECT_EQ(sample.find(metric)->missing()->reason, MissingReason::not_supported);
  }
  EXPECT_EQ(gpm_driver.allocated, 0U);
}

}  // namespace
}  // namespace gpuyard::nvml
