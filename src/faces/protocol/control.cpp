#include "faces/protocol/control.h"

#include <array>

#include <fmt/format.h>

#include "base/text.h"

#include "base/saturated.h"

namespace gpuyard::protocol {
namespace {

struct NamedMode {
  std::int64_t mode;
  std::string_view name;
};
constexpr std::array kComputeModes = {NamedMode{0, "default"}, NamedMode{2, "prohibited"},
                                      NamedMode{3, "exclusive_process"}};

std::optional<SettingView> optional_view(const std::optional<Setting>& setting) {
  return setting ? std::optional(view_of(*setting)) : std::nullopt;
}

std::optional<SettingView> optional_view(SettingKind kind,
                                         const std::optional<SettingValue>& value) {
  return value ? std::optional(view_of({kind, value})) : std::nullopt;
}

// Returns the least or the most that a setting may be; for clocks, that a lock may be.
std::optional<SettingView> bound_view(SettingKind kind, const std::optional<SettingValue>& allowed,
                                      std::int64_t SettingValue::* which) {
  if (!allowed) return std::nullopt;
  const std::int64_t value = *allowed.*which;
  return view_of({kind, SettingValue{value, value}});
}

SettingStatus setting_status_of(const control::ManagedSetting* held) {
  if (held == nullptr) return SettingStatus::free;
  return enum_from_name<SettingStatus>(enum_name(held->status)).value_or(SettingStatus::owed);
}

}  // namespace

Result<Setting> setting_of(const ComputeModeRequest& request) {
  for (const NamedMode& known : kComputeModes) {
    if (known.name == request.compute_mode) return compute_mode(known.mode);
  }
  return Error{Errc::invalid,
               fmt::format("/compute_mode: expected default, prohibited or exclusive_process; got "
                           "\"{}\"",
                           printable(request.compute_mode))};
}

Result<EccCounter> counter_of(const ClearEccRequest& request) {
  if (request.counter == "volatile") return EccCounter::since_load;
  if (request.counter == "aggregate") return EccCounter::lifetime;
  return Error{Errc::invalid, fmt::format("/counter: expected volatile or aggregate; got \"{}\"",
                                          printable(request.counter))};
}

std::optional<Duration> duration_of(const TimedChangeOptions& options) {
  return options.for_s ? std::optional(duration_from_seconds(*options.for_s)) : std::nullopt;
}

SettingView view_of(const Setting& setting) {
  SettingView view;
  view.text = text_of(setting);
  if (!setting.value) return view;
  const auto [lowest, highest] = *setting.value;
  switch (setting.kind) {
    case SettingKind::power_limit:
      view.power_limit_mw = lowest;
      break;
    case SettingKind::gpu_clocks:
    case SettingKind::memory_clocks:
      view.min_clock_mhz = lowest;
      view.max_clock_mhz = highest;
      break;
    case SettingKind::persistence:
    case SettingKind::ecc:
      view.enabled = lowest != 0;
      break;
    case SettingKind::compute_mode:
      for (const NamedMode& known : kComputeModes) {
        if (known.mode == lowest) view.compute_mode = known.name;
      }
      break;
  }
  return view;
}

ChangeResult change_result_of(const control::ChangeResult& change) {
  ChangeResult view;
  view.operation = change.operation_id;
  view.index = change.index;
  view.uuid = change.gpu;
  if (change.kind) view.setting = enum_name(*change.kind);
  view.outcome = change.outcome;
  view.before = optional_view(change.before);
  view.after = optional_view(change.after);
  view.owner = change.owner;
  view.until = change.until;
  if (change.error) {
    view.error = ErrorView{std::string(name_of(change.error->code)), change.error->text()};
  }
  return view;
}

ManagedSetting managed_setting_of(SettingKind kind, const Result<SettingState>& seen,
                                  const control::ManagedSetting* held) {
  ManagedSetting view;
  view.setting = enum_name(kind);
  view.standing = setting_status_of(held);
  if (!seen) {
    view.why = seen.error().text();
  } else {
    view.now = optional_view(kind, seen->now);
    if (!seen->now) view.why = "not reported by the driver";
    view.lowest = bound_view(kind, seen->allowed, &SettingValue::lowest);
    view.highest = bound_view(kind, seen->allowed, &SettingValue::highest);
    view.by_default = optional_view(kind, seen->by_default);
  }
  if (held == nullptr) return view;
  view.baseline = optional_view(held->baseline);
  for (const control::SettingClaim& claim : held->claims) {
    view.claims.push_back(
        {claim.owner, view_of({kind, claim.value}), claim.since, claim.until_wall});
  }
  return view;
}

Operation operation_of(const control::Operation& operation) {
  Operation view;
  view.state = operation.state;
  view.action = operation.action;
  view.asked_by = operation.requested_by;
  view.request_id = operation.request_id;
  view.asked_at = operation.requested_at;
  if (operation.took) view.seconds = to_seconds(*operation.took);
  view.change = change_result_of(operation.result);
  return view;
}

}  // namespace gpuyard::protocol
