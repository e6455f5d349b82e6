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

constexpr std::array kTypes = {EventType{kEventXid, EventKind::xid},
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
  for (const EventType& one : kTypes) wanted |= one.type & types;
  return wanted != 0 ? api_.register_events(device, wanted, set_) : kNotSupported;
}

void EventReceiver::enrol(const DeviceId& id, DeviceHandle device) {
  const TimePoint now = BootClock::now();
  const auto [known, added] = members_.try_emplace(id);
  Member& member = known->second;
  const bool settled = member.code == kSuccess || member.code == kNotSupported;
  if (!added && (settled || now - member.tried < kTryAgainAfter)) return;
  member.code = register_one(device);
  member.tried = now;
  const bool lost = member.code == kGpuIsLost;
  if (lost && !member.lost) {
    found_.push_back({id, EventKind::unavailable, EventSource::driver, now, {}, {}, ""});
    found_.back().text = text_of(member.code);
  }
  member.lost = lost;
}

Result<std::optional<DeviceEvent>> EventReceiver::next(const std::map<DeviceId, DeviceHandle>& open,
                                                       Duration at_most) {
  if (const ReturnCode code = make_set(); code != kSuccess)
    return event_error("creating an event set", code);
  for (const auto& [id, device] : open) enrol(id, device);
  if (!found_.empty()) {
    DeviceEvent event = std::move(found_.front());
    found_.pop_front();
    return std::optional(std::move(event));
  }
  const auto takes_part = [](const auto& one) { return one.second.code == kSuccess; };
  if (!std::ranges::any_of(members_, takes_part)) {
    return Error{Errc::unavailable, "no GPU reports events"};
  }
  EventData data;
  const ReturnCode code = api_.event_set_wait(set_, &data, milliseconds_of(at_most));
  if (code == kTimeout) return std::optional<DeviceEvent>();
  if (code == kSuccess) return pass_on(open, data);
  // One lost GPU may fail the whole set: registering all again shows which one.
  close();
  for (auto& [id, member] : members_) {
    if (member.code == kSuccess) member.code = kUninitialized;
    if (member.code == kUninitialized) member.tried = TimePoint{};
  }
  return event_error("waiting", code);
}

std::optional<DeviceEvent> EventReceiver::pass_on(const std::map<DeviceId, DeviceHandle>& open,
                                                  const EventData& data) const {
  const auto whose =
      std::ranges::find(open, data.device, [](const auto& one) { return one.second; });
  const auto known = std::ranges::find(kTypes, data.type, &EventType::type);
  if (whose == open.end() || known == kTypes.end()) return std::nullopt;
  DeviceEvent event{whose->first, known->kind, EventSource::driver, BootClock::now(), {}, {}, ""};
  if (known->kind == EventKind::xid) event.xid = static_cast<std::uint32_t>(data.data);
  return event;
}

}  // namespace gpuyard::nvml
