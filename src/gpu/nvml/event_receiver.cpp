#include "gpu/nvml/event_receiver.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "gpu/nvml/api.h"

namespace gpuyard::nvml {
namespace {

struct EventType {
  unsigned long long type;
  EventKind kind;
};

constexpr std::array kEventTypes = {EventType{kEventXid, EventKind::xid},
                                    EventType{kEventSingleBitEcc, EventKind::ecc_corrected},
                                    EventType{kEventDoubleBitEcc, EventKind::ecc_uncorrected},
                                    EventType{kEventPoison, EventKind::poison},
                                    EventType{kEventFatalPoison, EventKind::fatal_poison},
                                    EventType{kEventUnavailable, EventKind::unavailable},
                                    EventType{kEventRecoveryAction, EventKind::recovery_action}};

Error event_error(std::string_view doing, ReturnCode code) {
  // A function that the library lacks will never appear.
  const Errc errc = code == kFunctionNotFound ? Errc::unsupported : errc_of(code);
  return {errc, fmt::format("{}: {}", doing, text_of(code))};
}

unsigned milliseconds_of(Duration duration) {
  return static_cast<unsigned>(std::max<std::int64_t>(to_milliseconds(duration), 0));
}

}  // namespace

ReturnCode EventReceiver::make_set() {
  if (set_ != nullptr) return kSuccess;
  const bool there =
      api_.register_events.function != nullptr && api_.event_set_wait.function != nullptr;
  return there ? api_.event_set_create(&set_) : kFunctionNotFound;
}

void EventReceiver::close() {
  if (EventSet set = std::exchange(set_, nullptr)) api_.event_set_free(set);
}

ReturnCode EventReceiver::register_one(DeviceHandle device) const {
  unsigned long long types = 0;
  const ReturnCode code = api_.supported_event_types(device, &types);
  if (code == kFunctionNotFound) types = kEventXid;
  if (code != kSuccess && code != kFunctionNotFound) return code;
  unsigned long long wanted = 0;
  for (const EventType& one : kEventTypes) wanted |= one.type & types;
  return wanted != 0 ? api_.register_events(device, wanted, set_) : kNotSupported;
}

void EventReceiver::ensure_registered(const DeviceId& id, DeviceHandle device) {
  const TimePoint now = BootClock::now();
  const auto [known, added] = registrations_.try_emplace(id);
  Registration& member = known->second;
  const bool settled = member.code == kSuccess || member.code == kNotSupported;
  if (!added && (settled || now - member.tried_at < kRegistrationRetryDelay)) return;
  member.code = register_one(device);
  member.tried_at = now;
  const bool lost = member.code == kGpuIsLost;
  if (lost && !member.lost) {
    pending_losses_.push_back({id, EventKind::unavailable, EventSource::driver, now, {}, {}, ""});
    pending_losses_.back().text = text_of(member.code);
  }
  member.lost = lost;
}

Result<std::optional<DeviceEvent>> EventReceiver::next_event(
    const std::map<DeviceId, DeviceHandle>& open, Duration timeout) {
  if (const ReturnCode code = make_set(); code != kSuccess)
    return event_error("creating an event set", code);
  for (const auto& [id, device] : open) ensure_registered(id, device);
  if (!pending_losses_.empty()) {
    DeviceEvent event = std::move(pending_losses_.front());
    pending_losses_.pop_front();
    return std::optional(std::move(event));
  }
  const auto takes_part = [](const auto& one) { return one.second.code == kSuccess; };
  if (!std::ranges::any_of(registrations_, takes_part)) {
    return Error{Errc::unavailable, "no GPU reports events"};
  }
  EventData data;
  const ReturnCode code = api_.event_set_wait(set_, &data, milliseconds_of(timeout));
  if (code == kTimeout) return std::optional<DeviceEvent>();
  if (code == kSuccess) return to_device_event(open, data);
  // One lost GPU may fail the whole set: registering all again shows which one.
  close();
  for (auto& [id, member] : registrations_) {
    if (member.code == kSuccess) member.code = kUninitialized;
    if (member.code == kUninitialized) member.tried_at = TimePoint{};
  }
  return event_error("waiting", code);
}

std::optional<DeviceEvent> EventReceiver::to_device_event(
    const std::map<DeviceId, DeviceHandle>& open, const EventData& data) const {
  const auto device =
      std::ranges::find(open, data.device, [](const auto& one) { return one.second; });
  const auto known = std::ranges::find(kEventTypes, data.type, &EventType::type);
  if (device == open.end() || known == kEventTypes.end()) return std::nullopt;
  DeviceEvent event{device->first, known->kind, EventSource::driver, BootClock::now(), {}, {}, ""};
  if (known->kind == EventKind::xid) event.xid = static_cast<std::uint32_t>(data.data);
  return event;
}

}  // namespace gpuyard::nvml
