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

}  // namespace

Result<Setting> setting_of(const ComputeModeWish& wish) {
  for (const NamedMode& known : kComputeModes) {
    if (known.name == wish.compute_mode) return compute_mode(known.mode);
  }
  return Error{Errc::invalid,
               fmt::format("/compute_mode: expected default, prohibited or exclusive_process; got "
                           "\"{}\"",
                           printable(wish.compute_mode))};
}

Result<EccCounter> counter_of(const ClearEccWish& wish) {
  if (wish.counter == "volatile") return EccCounter::since_load;
  if (wish.counter == "aggregate") return EccCounter::lifetime;
  return Error{Errc::invalid, fmt::format("/counter: expected volatile or aggregate; got \"{}\"",
                                          printable(wish.counter))};
}

std::optional<Duration> lasting_of(const LastingWish& wish) {
  return wish.for_s ? std::optional(length_of_seconds(*wish.for_s)) : std::nullopt;
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

namespace {

std::optional<SettingView> optional_view(const std::optional<Setting>& setting) {
  return setting ? std::optional(view_of(*setting)) : std::nullopt;
}

std::optional<SettingView> optional_view(SettingKind kind,
                                         const std::optional<SettingValue>& value) {
  return value ? std::optional(view_of({kind, value})) : std::nullopt;
}

std::optional<std::string> moment(const std::optional<WallTime>& wall) {
  return wall ? std::optional(to_rfc3339(*wall)) : std::nullopt;
}

// Returns the least or the most that a setting may be; for clocks, that a lock may be.
std::optional<SettingView> bound(SettingKind kind, const std::optional<SettingValue>& allowed,
                                 std::int64_t SettingValue::* which) {
  if (!allowed) return std::nullopt;
  const std::int64_t value = *allowed.*which;
  return view_of({kind, SettingValue{value, value}});
}

Standing standing_of(const control::Holding* held) {
  if (held == nullptr) return Standing::free;
  return enum_from_name<Standing>(enum_name(held->standing)).value_or(Standing::owed);
}

}  // namespace

Change change_of(const control::Change& change) {
  Change view;
  view.operation = change.operation;
  view.index = change.index;
  view.uuid = change.gpu;
  if (change.kind) view.setting = enum_name(*change.kind);
  view.outcome = change.outcome;
  view.before = optional_view(change.before);
  view.after = optional_view(change.after);
  view.owner = change.owner;
  view.until = moment(change.until);
  if (change.error) {
    view.error = ErrorView{std::string(name_of(change.error->code)), change.error->text()};
  }
  return view;
}

ManagedSetting managed_setting_of(SettingKind kind, const Result<SettingState>& seen,
                                  const control::Holding* held) {
  ManagedSetting view;
  view.setting = enum_name(kind);
  view.standing = standing_of(held);
  if (!seen) {
    view.why = seen.error().text();
  } else {
    view.now = optional_view(kind, seen->now);
    if (!seen->now) view.why = "not reported by the driver";
    view.lowest = bound(kind, seen->allowed, &SettingValue::lowest);
    view.highest = bound(kind, seen->allowed, &SettingValue::highest);
    view.by_default = optional_view(kind, seen->by_default);
  }
  if (held == nullptr) return view;
  view.baseline = optional_view(held->baseline);
  for (const control::Claim& claim : held->claims) {
    view.claims.push_back({claim.owner, view_of({kind, claim.wanted}), to_rfc3339(claim.since),
                           moment(claim.until_wall)});
  }
  return view;
}

Operation operation_of(const control::Operation& operation) {
  Operation view;
  view.state = operation.state;
  view.action = operation.action;
  view.asked_by = operation.asked_by;
  view.request_id = operation.request_id;
  view.asked_at = to_rfc3339(operation.asked_at);
  if (operation.took) view.seconds = to_seconds(*operation.took);
  view.change = change_of(operation.change);
  return view;
}

AuditLine audit_line_of(const control::AuditEntry& entry) {
  AuditLine line;
  line.number = entry.number;
  line.at = to_rfc3339(entry.at);
  line.by = entry.by;
  line.request_id = entry.request_id;
  line.action = entry.action;
  line.index = entry.index;
  if (!entry.gpu.empty()) line.uuid = entry.gpu;
  line.before = entry.before;
  line.after = entry.after;
  line.outcome = entry.outcome;
  line.error = entry.error;
  line.forced = entry.forced;
  line.seconds = to_seconds(entry.took);
  return line;
}

}  // namespace gpuyard::protocol
