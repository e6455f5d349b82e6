#include "gpu/device/snapshot.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/text.h"
#include "gpu/device/catalog.h"
#include "gpu/device/device.h"
#include "gpu/device/error.h"

namespace gpuyard {
namespace {

bool is_loss_reason(MissingReason reason) {
  return reason == MissingReason::device_lost || reason == MissingReason::driver_gone;
}

// True for rare rows: a GPU that needs a reset still answers them although it is lost for every
// other purpose.
bool survives_loss(Metric metric) {
  static const auto rare = [] {
    std::array<bool, kMetricCount> found{};
    for (const ProbeRow& row : probes()) {
      for (const Metric one : row.fills) {
        found[static_cast<std::size_t>(one)] = row.tier == Tier::rare;
      }
    }
    return found;
  }();
  return rare[static_cast<std::size_t>(metric)];
}

bool is_loss(const Missing* why) {
  return why != nullptr && why->reason == MissingReason::device_lost;
}

}  // namespace

bool is_polling_paused(const DeviceState& device) {
  return device.runtime_suspend && device.runtime_suspend->polling_paused;
}

std::optional<TimePoint> asleep_since(const DeviceState& device) {
  return device.runtime_suspend ? device.runtime_suspend->asleep_since : std::nullopt;
}

const Missing* find_loss(const Sample& sample) {
  const Missing* why = nullptr;
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr && survives_loss(reading.metric)) continue;
    if (missing == nullptr) return nullptr;
    if (missing->reason == MissingReason::not_supported) continue;
    if (!is_loss_reason(missing->reason)) return nullptr;
    if (why == nullptr) why = missing;
  }
  return why;
}

const Missing* unreadable_reason(const Sample& sample) {
  const Missing* why = nullptr;
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr && survives_loss(reading.metric)) continue;
    if (missing == nullptr) return nullptr;
    if (why == nullptr && is_failure(missing->reason)) why = missing;
  }
  return why;
}

bool is_inconclusive(const Sample& sample) {
  const auto& readings = sample.readings();
  return std::all_of(readings.begin(), readings.end(), [](const Reading& reading) {
    const Missing* missing = reading.missing();
    if (missing == nullptr) return survives_loss(reading.metric);
    return missing->reason == MissingReason::not_supported;
  });
}

DeviceState device_state(DeviceInfo info, std::optional<Sample> sample, ProbeSet probes,
                         TimePoint now) {
  DeviceState state{std::move(info), DeviceCondition::responsive, "", {}, 0};
  if (state.info.fault) {
    state.condition = DeviceCondition::unavailable;
    state.why = describe(*state.info.fault);
    state.sample = missing_sample(probes, *state.info.fault, now);
  } else if (!sample) {
    const Missing late{MissingReason::timed_out, ""};
    state.condition = DeviceCondition::unresponsive;
    state.why = describe(late);
    state.sample = missing_sample(probes, late, now);
  } else {
    state.sample = *std::move(sample);
    if (const Missing* why = find_loss(state.sample)) {
      state.condition = DeviceCondition::unavailable;
      state.why = describe(*why);
    }
  }
  return state;
}

Duration max_step(const Snapshot& snapshot) {
  constexpr Duration kMaxLateness = std::chrono::seconds(4);
  return snapshot.interval + kMaxLateness;
}

bool has_name(const DeviceInfo& info, std::string_view name) {
  if (const auto index = parse_number<std::uint32_t>(name)) return info.index == *index;
  return (!info.uuid.empty() && info.uuid == name) ||
         (!info.pci_address.empty() && info.pci_address == short_pci_address(name));
}

Result<const DeviceState*> find_device(const Snapshot& snapshot, std::string_view name) {
  for (const DeviceState& device : snapshot.devices) {
    if (has_name(device.info, name)) return &device;
  }
  if (const auto index = parse_number<std::uint32_t>(name)) return index_range_error(*index);
  return Error{Errc::not_found,
               fmt::format("GPU \"{}\" not found; use an index, UUID or PCI address", name), "",
               "gpuyard devices"};
}

bool is_failure(MissingReason reason) {
  return reason != MissingReason::not_supported && reason != MissingReason::not_ready;
}

std::vector<Missing> failures(const Sample& sample) {
  std::set<std::string> causes;
  std::vector<Missing> found;
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr || !is_failure(missing->reason)) continue;
    if (causes.insert(describe(*missing)).second) found.push_back(*missing);
  }
  return found;
}

// Readings are taken one after the other, so others may be from before the loss.
std::optional<Missing> loss_reason(const DeviceState& device) {
  if (device.condition != DeviceCondition::unavailable) return std::nullopt;
  const auto& fault = device.info.fault;
  if (fault) return is_loss(&*fault) ? fault : std::nullopt;
  const auto& readings = device.sample.readings();
  const auto loss = std::ranges::find_if(
      readings, [](const Reading& reading) { return is_loss(reading.missing()); });
  return loss == readings.end() ? std::nullopt : std::optional(*loss->missing());
}

bool is_lost(const DeviceState& device) {
  return loss_reason(device).has_value();
}

}  // namespace gpuyard
