// The setters, and their getters, of the fake NVML whose answers the test sets.
#pragma once

#include <string>
#include <vector>

#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {

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

// Makes a table in which every call succeeds, setters too; resets the fake.
inline Api settable_api() {
  Api api = healthy_api();
  settings = FakeSettings{};
  add_getters(api);
  add_setters(api);
  return api;
}

}  // namespace gpuyard::nvml
