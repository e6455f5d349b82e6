// Event sets: report errors of GPUs to the clients that wait for them.
#include <algorithm>
#include <array>
#include <vector>

#include "sim_nvml/device_call.h"
#include "sim_nvml/handle_table.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

constexpr std::size_t kMaxEventSets = 256;  // at a time, of one client
// The sleep of a wait between two polls. A real driver sleeps until an event; polling as often
// as a world changes would cost a waiting client 0.3 % of a core.
constexpr std::uint32_t kEventPollMs = 50;

struct Registration {
  std::array<unsigned long long, sim::kMaxGpus> types{};  // by place
  std::uint64_t seen = 0;  // sequence number of the last event reported or skipped
};

using EventSets = HandleTable<EventSet, Registration, kMaxEventSets>;

EventSets& event_sets() {
  static EventSets& only = *new EventSets;  // never destroyed, like the session
  return only;
}

unsigned long long supported_types(const Device& device) {
  return device.model.has_ecc ? kEventXid | kEventSingleBitEcc | kEventDoubleBitEcc : kEventXid;
}

// Returns the next event for which the set is registered, and counts it as reported.
std::optional<sim::EventRecord> next_event(const sim::WorldReader& world, EventSet set) {
  std::optional<sim::EventRecord> found;
  (void)event_sets().change(set, [&](Registration& registered) {
    for (const sim::EventRecord& event : world.events_after(registered.seen)) {
      registered.seen = event.sequence;
      if (event.gpu >= sim::kMaxGpus || (registered.types[event.gpu] & event.type) == 0) continue;
      found = event;
      return;
    }
  });
  return found;
}

// A lost GPU of the set, or a driver that is gone, makes every wait return at once.
ReturnCode health_of(const OpenedDriver& driver, const Registration& registered) {
  sim::RecordPair now;
  for (std::uint32_t index = 0; index < driver.gpu_count(); ++index) {
    const std::uint32_t place = driver.place_of(index);
    if (registered.types[place] == 0) continue;
    if (const auto code = driver.read(place, Call::events, now); code != kSuccess) return code;
  }
  return kSuccess;
}

// Polls every kEventPollMs until there is an event or `timeout_ms` has passed.
ReturnCode wait_for(EventSet set, std::uint32_t timeout_ms, EventData& out) {
  const std::uint64_t deadline = monotonic_us() + std::uint64_t{timeout_ms} * 1000;
  for (;;) {
    const auto driver = session().driver();
    if (driver == nullptr) return kUninitialized;
    const auto registered = event_sets().get(set);
    if (!registered) return kInvalidArgument;
    if (const auto event = next_event(driver->world(), set)) {
      out = {.device = handle_of(event->gpu), .type = event->type, .data = event->data};
      return kSuccess;
    }
    if (const auto code = health_of(*driver, *registered); code != kSuccess) return code;
    const std::uint64_t now = monotonic_us();
    if (now >= deadline) return kTimeout;
    const std::uint64_t remaining_ms = (deadline - now + 999) / 1000;
    sleep_for(static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining_ms, kEventPollMs)));
  }
}

}  // namespace

SIM_NVML_ENTRY nvmlEventSetCreate(EventSet* out) {
  return on_driver(out != nullptr, [&](const OpenedDriver& driver) {
    *out = event_sets().make({.types = {}, .seen = driver.world().event_count()});
    return *out != nullptr ? kSuccess : kMemory;
  });
}

SIM_NVML_ENTRY nvmlEventSetFree(EventSet set) {
  if (session().driver() == nullptr) return kUninitialized;
  return event_sets().free(set) ? kSuccess : kInvalidArgument;
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedEventTypes(DeviceHandle handle, unsigned long long* out) {
  return read_one(Call::events, handle, out, supported_types);
}

// Registers all of the types or, if one of them is not supported, none.
SIM_NVML_ENTRY nvmlDeviceRegisterEvents(DeviceHandle handle, unsigned long long types,
                                        EventSet set) {
  return on_device(
      Call::events, handle, event_sets().get(set).has_value(), [&](const Device& device) {
        if ((types & ~supported_types(device)) != 0) return kNotSupported;
        const bool there = event_sets().change(
            set, [&](Registration& registered) { registered.types[device.place] |= types; });
        return there ? kSuccess : kInvalidArgument;
      });
}

SIM_NVML_ENTRY nvmlEventSetWait_v2(EventSet set, EventData* out, unsigned timeout_ms) {
  if (session().driver() == nullptr) return kUninitialized;
  if (out == nullptr) return kInvalidArgument;
  return wait_for(set, timeout_ms, *out);
}

SIM_NVML_ENTRY nvmlEventSetWait(EventSet set, EventDataV1* out, unsigned timeout_ms) {
  EventData data;
  const ReturnCode code = nvmlEventSetWait_v2(set, out != nullptr ? &data : nullptr, timeout_ms);
  if (code == kSuccess) *out = {.device = data.device, .type = data.type, .data = data.data};
  return code;
}
