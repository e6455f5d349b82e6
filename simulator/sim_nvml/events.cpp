// Event sets: what goes wrong with a GPU, told to whoever waits for it.
#include <time.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim_nvml/device_call.h"
#include "sim_nvml/handle_table.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr std::size_t kMostSets = 256;           // at a time, of one client
constexpr std::uint32_t kLookAgainAfterMs = 10;  // a world moves no oftener

struct Registered {
  std::array<unsigned long long, sim::kMaxGpus> types{};  // by GPU
  std::uint64_t seen = 0;  // the sequence number of the last event told or passed over
};

using EventSets = sim_nvml::HandleTable<EventSet, Registered, kMostSets>;

EventSets& event_sets() {
  static EventSets& only = *new EventSets;  // never destroyed, as the session is not
  return only;
}

unsigned long long supported_types(const Device& device) {
  return device.model.has_ecc ? kEventXid | kEventSingleBitEcc | kEventDoubleBitEcc : kEventXid;
}

std::uint64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

// The next event that the set is registered for; it counts as told.
std::optional<sim::EventRecord> next_event(const sim::WorldReader& world, EventSet set) {
  std::optional<sim::EventRecord> found;
  (void)event_sets().change(set, [&](Registered& registered) {
    for (const sim::EventRecord& event : world.events_after(registered.seen)) {
      registered.seen = event.sequence;
      if (event.gpu >= sim::kMaxGpus || (registered.types[event.gpu] & event.type) == 0) continue;
      found = event;
      return;
    }
  });
  return found;
}

// A GPU of the set that is lost, or whose keeper died, makes every wait return at once.
ReturnCode health_of(const sim::WorldReader& world, const Registered& registered) {
  for (std::uint32_t gpu = 0; gpu < world.gpu_count(); ++gpu) {
    if (registered.types[gpu] == 0) continue;
    const auto record = world.record(gpu);
    if (!record) return kDriverNotLoaded;
    if (const auto code = sim_nvml::obey(record->fault, Call::events); code != kSuccess) {
      return code;
    }
  }
  return kSuccess;
}

// Looks, and looks again every 10 ms until something happened or `timeout_ms` passed.
ReturnCode wait_for(EventSet set, std::uint32_t timeout_ms, EventData& out) {
  const std::uint64_t deadline = monotonic_us() + std::uint64_t{timeout_ms} * 1000;
  for (;;) {
    const auto world = sim_nvml::session().world();
    if (world == nullptr) return kUninitialized;
    const auto registered = event_sets().get(set);
    if (!registered) return kInvalidArgument;
    if (const auto event = next_event(*world, set)) {
      out = {.device = sim_nvml::handle_of(event->gpu), .type = event->type, .data = event->data};
      return kSuccess;
    }
    if (const auto code = health_of(*world, *registered); code != kSuccess) return code;
    const std::uint64_t now = monotonic_us();
    if (now >= deadline) return kTimeout;
    const std::uint64_t left_ms = (deadline - now + 999) / 1000;
    sim_nvml::sleep_for(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left_ms, kLookAgainAfterMs)));
  }
}

}  // namespace

SIM_NVML_ENTRY nvmlEventSetCreate(EventSet* out) {
  const auto world = sim_nvml::session().world();
  if (world == nullptr) return kUninitialized;
  if (out == nullptr) return kInvalidArgument;
  *out = event_sets().make({.types = {}, .seen = world->event_count()});
  return *out != nullptr ? kSuccess : kMemory;
}

SIM_NVML_ENTRY nvmlEventSetFree(EventSet set) {
  if (sim_nvml::session().world() == nullptr) return kUninitialized;
  return event_sets().free(set) ? kSuccess : kInvalidArgument;
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedEventTypes(DeviceHandle handle, unsigned long long* out) {
  return sim_nvml::read_one(Call::events, handle, out, supported_types);
}

// All of the types or, if one of them is not supported, none.
SIM_NVML_ENTRY nvmlDeviceRegisterEvents(DeviceHandle handle, unsigned long long types,
                                        EventSet set) {
  return sim_nvml::on_device(
      Call::events, handle, event_sets().get(set).has_value(), [&](const Device& device) {
        if ((types & ~supported_types(device)) != 0) return kNotSupported;
        const bool there = event_sets().change(
            set, [&](Registered& registered) { registered.types[device.index] |= types; });
        return there ? kSuccess : kInvalidArgument;
      });
}

SIM_NVML_ENTRY nvmlEventSetWait_v2(EventSet set, EventData* out, unsigned timeout_ms) {
  if (sim_nvml::session().world() == nullptr) return kUninitialized;
  if (out == nullptr) return kInvalidArgument;
  return wait_for(set, timeout_ms, *out);
}

SIM_NVML_ENTRY nvmlEventSetWait(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  EventData data;
  const ReturnCode code = nvmlEventSetWait_v2(set, out != nullptr ? &data : nullptr, timeout_ms);
  if (code == kSuccess) *out = {.device = data.device, .type = data.type, .data = data.data};
  return code;
}
