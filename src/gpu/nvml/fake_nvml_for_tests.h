// An NVML whose answers are all set by the test: plain functions over one global state, because
// their table holds plain function pointers.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gpu/nvml/api.h"

namespace gpuyard::nvml {

struct FakeNvml {
  // The code that each call returns instead of success, by the call's name in this fake.
  std::map<std::string, ReturnCode> codes;
  unsigned device_count = 2;
  std::map<unsigned, ReturnCode> handle_codes;
  MemoryV1 memory{80ULL << 30U, 60ULL << 30U, 19ULL << 30U};
  Utilization utilization{35, 20};
  int celsius = 61;
  unsigned power_mw = 312'500;
  unsigned limit_mw = 700'000;
  unsigned long long energy_mj = 123'456'789;
  unsigned sm_mhz = 1755;
  int inits = 0;
  int shutdowns = 0;

  ReturnCode code(const char* call) const {
    const auto found = codes.find(call);
    return found != codes.end() ? found->second : kSuccess;
  }
};

inline FakeNvml fake;

// Targets for handles, which must point somewhere as real ones do; the contents do not matter.
inline std::array<char, 64> handle_targets;

inline DeviceHandle handle_of(unsigned index) {
  return reinterpret_cast<DeviceHandle>(&handle_targets.at(index));
}
inline unsigned index_of(DeviceHandle handle) {
  return static_cast<unsigned>(reinterpret_cast<char*>(handle) - handle_targets.data());
}

inline ReturnCode put_text(const char* call, const std::string& text, char* out, unsigned size) {
  if (const ReturnCode code = fake.code(call); code != kSuccess) return code;
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

template <class T>
ReturnCode put(const char* call, const T& value, T* out) {
  const ReturnCode code = fake.code(call);
  if (code == kSuccess) *out = value;
  return code;
}

// Makes a table in which every call succeeds; resets the fake.
inline Api healthy_api() {
  fake = FakeNvml{};
  Api api;
  api.init = {[] { return ++fake.inits, fake.code("init"); }};
  api.shutdown = {[] { return ++fake.shutdowns, kSuccess; }};
  api.driver_version = {
      [](char* out, unsigned size) { return put_text("driver_version", "535.104.05", out, size); }};
  api.nvml_version = {
      [](char* out, unsigned size) { return put_text("nvml_version", "12.535.104", out, size); }};
  api.cuda_driver_version = {[](int* out) { return put("cuda_driver_version", 12020, out); }};
  api.device_count = {[](unsigned* out) { return put("count", fake.device_count, out); }};
  api.handle_by_index = {[](unsigned index, DeviceHandle* out) {
    const auto code = fake.handle_codes.find(index);
    if (code != fake.handle_codes.end()) return code->second;
    *out = handle_of(index);
    return kSuccess;
  }};
  api.name = {[](DeviceHandle, char* out, unsigned size) {
    return put_text("name", "NVIDIA H100 80GB HBM3", out, size);
  }};
  api.uuid = {[](DeviceHandle device, char* out, unsigned size) {
    return put_text("uuid", "GPU-" + std::to_string(index_of(device)), out, size);
  }};
  api.pci_info = {[](DeviceHandle device, PciInfo* out) {
    const std::string bus = "00000000:0" + std::to_string(index_of(device) + 1) + ":00.0";
    return put_text("pci_info", bus, out->bus_id, sizeof(out->bus_id));
  }};
  api.memory_info = {[](DeviceHandle, MemoryV1* out) { return put("memory", fake.memory, out); }};
  api.utilization_rates = {
      [](DeviceHandle, Utilization* out) { return put("utilization", fake.utilization, out); }};
  api.temperature_v = {[](DeviceHandle, TemperatureV1* out) {
    return put("temperature_v", fake.celsius, &out->celsius);
  }};
  api.temperature = {[](DeviceHandle, unsigned, unsigned* out) {
    return put("temperature", static_cast<unsigned>(fake.celsius), out);
  }};
  api.power_usage = {[](DeviceHandle, unsigned* out) { return put("power", fake.power_mw, out); }};
  api.enforced_power_limit = {
      [](DeviceHandle, unsigned* out) { return put("limit", fake.limit_mw, out); }};
  api.total_energy_consumption = {
      [](DeviceHandle, unsigned long long* out) { return put("energy", fake.energy_mj, out); }};
  api.clock_info = {
      [](DeviceHandle, unsigned, unsigned* out) { return put("clock", fake.sm_mhz, out); }};
  return api;
}

// What the setters change, and the calls of them.
struct FakeSettings {
  unsigned persistence = 0;
  unsigned compute_mode = 0;
  unsigned ecc = 1;
  unsigned ecc_pending = 1;
  unsigned default_limit_mw = 650'000;
  unsigned least_mw = 200'000;
  unsigned most_mw = 700'000;
  std::vector<unsigned> memory_clocks = {2619, 1593};
  std::vector<unsigned> graphics_clocks = {1980, 1965, 345};  // at the highest memory clock
  std::vector<unsigned> low_graphics_clocks = {900, 210};     // at every other memory clock
  std::vector<std::string> calls;                             // calls of setters, in order
};

inline FakeSettings settings;

inline ReturnCode record_call(const char* call, const std::vector<unsigned>& arguments) {
  std::string line = call;
  for (const unsigned argument : arguments) line += " " + std::to_string(argument);
  settings.calls.push_back(line);
  return fake.code(call);
}

inline ReturnCode put_clocks(const char* call, const std::vector<unsigned>& clocks, unsigned* count,
                             unsigned* out) {
  if (const ReturnCode code = fake.code(call); code != kSuccess) return code;
  const unsigned room = *count;
  *count = static_cast<unsigned>(clocks.size());
  if (room < clocks.size()) return kInsufficientSize;
  for (const unsigned clock : clocks) *out++ = clock;
  return kSuccess;
}

inline ReturnCode put_two(const char* call, unsigned one, unsigned two, unsigned* first,
                          unsigned* second) {
  *first = one;
  *second = two;
  return fake.code(call);
}

inline void add_getters(Api& api) {
  api.power_limit = {
      [](DeviceHandle, unsigned* out) { return put("get_limit", fake.limit_mw, out); }};
  api.power_default_limit = {[](DeviceHandle, unsigned* out) {
    return put("default_limit", settings.default_limit_mw, out);
  }};
  api.power_limit_constraints = {[](DeviceHandle, unsigned* least, unsigned* most) {
    return put_two("constraints", settings.least_mw, settings.most_mw, least, most);
  }};
  api.supported_memory_clocks = {[](DeviceHandle, unsigned* count, unsigned* out) {
    return put_clocks("memory_clocks", settings.memory_clocks, count, out);
  }};
  api.supported_graphics_clocks = {
      [](DeviceHandle, unsigned memory, unsigned* count, unsigned* out) {
        const bool highest = memory == settings.memory_clocks.front();
        return put_clocks("graphics_clocks",
                          highest ? settings.graphics_clocks : settings.low_graphics_clocks, count,
                          out);
      }};
  api.persistence_mode = {[](DeviceHandle, unsigned* out) {
    return put("get_persistence", settings.persistence, out);
  }};
  api.compute_mode = {[](DeviceHandle, unsigned* out) {
    return put("get_compute_mode", settings.compute_mode, out);
  }};
  api.ecc_mode = {[](DeviceHandle, unsigned* current, unsigned* pending) {
    return put_two("get_ecc", settings.ecc, settings.ecc_pending, current, pending);
  }};
  api.default_ecc_mode = {[](DeviceHandle, unsigned* out) { return put("default_ecc", 1U, out); }};
}

inline void add_setters(Api& api) {
  api.set_power_limit = {
      [](DeviceHandle, unsigned mw) { return record_call("set_power_limit", {mw}); }};
  api.set_gpu_clocks = {
      [](DeviceHandle, unsigned a, unsigned b) { return record_call("set_gpu_clocks", {a, b}); }};
  api.reset_gpu_clocks = {[](DeviceHandle) { return record_call("reset_gpu_clocks", {}); }};
  api.set_memory_clocks = {[](DeviceHandle, unsigned a, unsigned b) {
    return record_call("set_memory_clocks", {a, b});
  }};
  api.reset_memory_clocks = {[](DeviceHandle) { return record_call("reset_memory_clocks", {}); }};
  api.set_persistence_mode = {
      [](DeviceHandle, unsigned mode) { return record_call("set_persistence_mode", {mode}); }};
  api.set_compute_mode = {
      [](DeviceHandle, unsigned mode) { return record_call("set_compute_mode", {mode}); }};
  api.set_ecc_mode = {
      [](DeviceHandle, unsigned mode) { return record_call("set_ecc_mode", {mode}); }};
  api.clear_ecc_counts = {
      [](DeviceHandle, unsigned counter) { return record_call("clear_ecc_counts", {counter}); }};
}

// The same with the setters, and the getters of what they set.
inline Api settable_api() {
  Api api = healthy_api();
  settings = FakeSettings{};
  add_getters(api);
  add_setters(api);
  return api;
}

// Visits every call that takes a GPU or an object of a GPU.
template <class Visit>
void each_device_call(Api& api, Visit&& visit) {
  const auto each = [&](auto&... calls) { (visit(calls), ...); };
  each(api.serial, api.board_part_number, api.vbios_version, api.inforom_image_version, api.brand,
       api.architecture, api.compute_capability, api.numa_node, api.minor_number,
       api.memory_affinity, api.memory_info, api.memory_info_v2, api.bar1_memory_info,
       api.utilization_rates, api.temperature_v, api.temperature, api.temperature_threshold,
       api.power_usage, api.power_limit, api.power_default_limit, api.power_limit_constraints,
       api.enforced_power_limit, api.total_energy_consumption, api.clock_info, api.max_clock_info,
       api.throttle_reasons, api.performance_state, api.encoder_utilization,
       api.decoder_utilization, api.fan_count, api.fan_speed, api.first_fan_speed, api.field_values,
       api.pcie_generation, api.pcie_width, api.max_pcie_generation, api.max_pcie_width,
       api.pcie_throughput, api.pcie_replays, api.nvlink_state, api.nvlink_remote_type,
       api.nvlink_remote_pci, api.ecc_mode, api.total_ecc_errors, api.memory_error_counter,
       api.remapped_rows, api.retired_pages, api.retired_pages_pending, api.persistence_mode,
       api.compute_mode, api.mig_mode, api.gpm_support, api.gpm_sample_alloc, api.gpm_sample_free,
       api.gpm_sample_get, api.gpm_metrics_get, api.compute_processes, api.graphics_processes,
       api.process_utilization, api.supported_memory_clocks, api.supported_graphics_clocks,
       api.default_ecc_mode, api.set_power_limit, api.set_gpu_clocks, api.reset_gpu_clocks,
       api.set_memory_clocks, api.reset_memory_clocks, api.set_persistence_mode,
       api.set_compute_mode, api.set_ecc_mode, api.clear_ecc_counts);
}

// The code that every call of uniform_api() returns.
inline ReturnCode uniform_code = kSuccess;

template <class... Args>
void answer_uniformly(Call<Args...>& call) {
  call.function = [](Args...) { return uniform_code; };
}

// Makes a table whose device calls all return `uniform_code` and touch nothing.
inline Api uniform_api() {
  Api api;
  each_device_call(api, [](auto& call) { answer_uniformly(call); });
  return api;
}

}  // namespace gpuyard::nvml
