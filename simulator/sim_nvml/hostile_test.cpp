// Calls every function of the library with the arguments of a careless or hostile client: nulls,
// invalid handles, counts and versions of all ones. The library may refuse but not crash; the asan
// preset runs this under the address sanitizer.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "gpu/nvml/abi.h"
#include "sim/physics.h"
#include "sim/world_for_tests.h"
#include "sim/world_writer.h"
#include "sim_nvml/every_entry_for_tests.h"

extern "C" {
gpuyard::nvml::ReturnCode nvmlInit_v2();
gpuyard::nvml::ReturnCode nvmlShutdown();
// Declared without their arguments: the tests pass six words to each, as a caller in C could.
#define SIM_NVML_DECLARE(name) void name();
SIM_NVML_EVERY_ENTRY(SIM_NVML_DECLARE)
}

namespace gpuyard::sim_nvml {
namespace {

using Word = std::uintptr_t;
using AnyCall = nvml::ReturnCode (*)(Word, Word, Word, Word, Word, Word);

struct Entry {
  const char* name;
  void (*call)();
};

constexpr std::array kEntries{
#define SIM_NVML_LIST(name) Entry{#name, name},
    SIM_NVML_EVERY_ENTRY(SIM_NVML_LIST)};

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() : room_(std::size_t{64} * 1024) {
    ::setenv("GPUYARD_SIM_WORLD", directory_.path().c_str(), 1);
    auto world = sim::make_world(*sim::find_model("t4"), 2, {.kind = sim::WorkloadKind::idle});
    sim::step(world, sim::kStep);
    writer_ =
        std::make_unique<sim::WorldWriter>(*sim::WorldWriter::create(directory_.path(), world));
  }
  ~HostileTest() override {
    while (nvmlShutdown() == nvml::kSuccess) {
    }
    ::unsetenv("GPUYARD_SIM_WORLD");
  }

  // Returns a pointer to 64 KiB full of `filling`, with a terminating zero: a text without one is
  // the caller's error, in any library.
  Word room(unsigned char filling) {
    std::fill(room_.begin(), room_.end(), filling);
    room_.back() = 0;
    return reinterpret_cast<Word>(room_.data());
  }
  // Every call must return a code of NVML's.
  static void call_all(Word first, const std::function<Word()>& others) {
    for (const Entry& entry : kEntries) {
      const Word rest = others();
      const auto call = reinterpret_cast<AnyCall>(entry.call);
      const nvml::ReturnCode code = call(first, rest, rest, rest, rest, rest);
      EXPECT_TRUE((code >= 0 && code <= 30) || code == nvml::kUnknown) << entry.name << code;
    }
  }
  static Word gpu() {
    nvml::DeviceHandle handle = nullptr;
    reinterpret_cast<AnyCall>(nvmlDeviceGetHandleByIndex_v2)(0, reinterpret_cast<Word>(&handle), 0,
                                                             0, 0, 0);
    return reinterpret_cast<Word>(handle);
  }

  ScratchDirectory directory_;
  std::unique_ptr<sim::WorldWriter> writer_;
  std::vector<unsigned char> room_;
};

TEST_F(HostileTest, UninitializedCallsReturnValidCodes) {
  call_all(0, [] { return Word{0}; });
  call_all(room(0xFF), [&] { return room(0xFF); });
}

TEST_F(HostileTest, NullsAreRefused) {
  ASSERT_EQ(nvmlInit_v2(), nvml::kSuccess);
  call_all(0, [] { return Word{0}; });
  call_all(gpu(), [] { return Word{0}; });
}

TEST_F(HostileTest, InvalidHandlesAreNotDereferenced) {
  ASSERT_EQ(nvmlInit_v2(), nvml::kSuccess);
  for (const Word handle : {Word{1}, Word{0xDEADBEEF}, ~Word{0}, gpu() + 2, gpu() - 1}) {
    // Functions that take no device get a valid pointer: a bad one is the caller's error.
    for (const Entry& entry : kEntries) {
      const std::string_view name = entry.name;
      const bool by_handle = name.find("Device") != name.npos &&
                             name.find("HandleBy") == name.npos &&
                             name.find("GetCount") == name.npos;
      const bool by_set = name == "nvmlEventSetFree" || name.starts_with("nvmlEventSetWait") ||
                          name == "nvmlGpmSampleFree" || name == "nvmlGpmSampleGet";
      if (!by_handle && !by_set) continue;
      const Word rest = room(0);
      const auto code = reinterpret_cast<AnyCall>(entry.call)(handle, rest, rest, rest, rest, rest);
      EXPECT_EQ(code, nvml::kInvalidArgument) << name;
    }
  }
}

TEST_F(HostileTest, ExtremeCountsAndVersionsAreHarmless) {
  ASSERT_EQ(nvmlInit_v2(), nvml::kSuccess);
  for (const int filling : {0x00, 0xFF, 0x01, 0x7F}) {
    call_all(gpu(), [&] { return room(static_cast<unsigned char>(filling)); });
  }
}

TEST_F(HostileTest, UnfreedSamplesEndInMemoryError) {
  ASSERT_EQ(nvmlInit_v2(), nvml::kSuccess);
  const auto allocate = reinterpret_cast<AnyCall>(nvmlGpmSampleAlloc);
  const auto free = reinterpret_cast<AnyCall>(nvmlGpmSampleFree);
  std::vector<Word> samples;
  Word sample = 0;
  nvml::ReturnCode code = nvml::kSuccess;
  while (samples.size() < 10'000) {
    code = allocate(reinterpret_cast<Word>(&sample), 0, 0, 0, 0, 0);
    if (code != nvml::kSuccess) break;
    samples.push_back(sample);
  }
  EXPECT_EQ(code, nvml::kMemory);
  for (const Word each : samples) EXPECT_EQ(free(each, 0, 0, 0, 0, 0), nvml::kSuccess);
  EXPECT_EQ(free(samples.front(), 0, 0, 0, 0, 0), nvml::kInvalidArgument);
}

}  // namespace
}  // namespace gpuyard::sim_nvml
