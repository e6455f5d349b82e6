#include "faces/protocol/energy.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

using energy::joules_of;
using energy::seconds_of;

std::optional<std::uint32_t> index_of(const std::string& uuid, const gpuyard::Snapshot& now) {
  for (const DeviceState& device : now.devices) {
    if (device.info.uuid != uuid) continue;
    return is_missing(device.info) ? std::nullopt : std::optional(device.info.index);
  }
  return std::nullopt;
}

// Sorts by index; GPUs that are not there come last, by UUID.
template <class Gpu>
void sort_gpus(std::vector<Gpu>& gpus) {
  std::ranges::sort(gpus, {}, [](const Gpu& gpu) {
    return std::pair(gpu.index.value_or(UINT32_MAX), std::string_view(gpu.uuid));
  });
}

// Why the energy of the GPU cannot be read now.
std::optional<std::string> missing_energy_reason(const std::string& uuid,
                                                 const gpuyard::Snapshot& now) {
  const auto device = std::ranges::find_if(
      now.devices, [&](const DeviceState& one) { return one.info.uuid == uuid; });
  if (!now.driver.initialised) return "the driver is not available: " + now.driver.why;
  if (device == now.devices.end()) return "the GPU is not present";
  if (device->condition != DeviceCondition::responsive) return device->why;
  std::string why = energy::missing_energy_reason(device->sample);
  return why.empty() ? std::nullopt : std::optional(std::move(why));
}

std::string gpu_label(const std::optional<std::uint32_t>& index, const std::string& uuid) {
  return index ? fmt::format("GPU {}", *index) : uuid;
}

// Names in the notes what a sum does not hold.
template <class Sum>
void add_unknown_notes(Sum& sum) {
  for (const auto& gpu : sum.gpus) {
    if (gpu.joules) continue;
    sum.notes.push_back(fmt::format("the energy of {} is unknown and not included in the sum: {}",
                                    gpu_label(gpu.index, gpu.uuid),
                                    gpu.why.value_or("it was not read in this period")));
  }
}

GpuEnergy gpu_energy_of(const energy::SavedAccount& account, const gpuyard::Snapshot& now) {
  const energy::AccountState& state = account.state;
  const energy::Amounts& amounts = state.amounts;
  return {index_of(account.uuid, now),
          account.uuid,
          to_rfc3339(state.first_seen),
          joules_of(amounts.device_mj()),
          EnergyAccounts{joules_of(amounts.unattributed_mj), joules_of(amounts.daemon_down_mj)},
          !state.counter_mj,
          joules_of(amounts.estimated_mj),
          seconds_of(amounts.unknown),
          EnergyEpoch{state.epoch, to_rfc3339(state.epoch_since),
                      joules_of(amounts.device_mj() - state.epoch_start_mj)},
          seconds_of(std::max(now.taken - state.last_reading_at, Duration::zero())),
          {},
          missing_energy_reason(account.uuid, now)};
}

}  // namespace

std::optional<Estimate> estimate_of(const Tariff& tariff, double kwh) {
  if (tariff.price_per_kwh <= 0 && tariff.g_co2_per_kwh <= 0) return std::nullopt;
  Estimate estimate;
  if (tariff.price_per_kwh > 0) {
    estimate.cost = kwh * tariff.price_per_kwh;
    estimate.currency = tariff.currency;
  }
  if (tariff.g_co2_per_kwh > 0) estimate.co2_g = kwh * tariff.g_co2_per_kwh;
  return estimate;
}

std::string text_of(const std::optional<Estimate>& estimate) {
  if (!estimate) return "";
  constexpr double kKilogram = 1000;
  std::string text = "about ";
  if (estimate->cost) {
    text += fmt::format("{:.2f} {}", *estimate->cost, estimate->currency.value_or(""));
  }
  if (estimate->co2_g) {
    if (estimate->cost) text += ", ";
    text += *estimate->co2_g >= kKilogram
                ? fmt::format("{:.1f} kg CO2", *estimate->co2_g / kKilogram)
                : fmt::format("{:.0f} g CO2", *estimate->co2_g);
  }
  return text;
}

std::optional<Estimate> estimate_of_joules(const Tariff& tariff, std::optional<double> joules) {
  return joules ? estimate_of(tariff, *joules / kJoulesPerKwh) : std::nullopt;
}

void put_estimates(EnergyReport& report, const Tariff& tariff) {
  report.estimate = estimate_of_joules(tariff, report.joules);
  for (GpuEnergy& gpu : report.gpus) gpu.estimate = estimate_of_joules(tariff, gpu.joules);
}

EnergyReport energy_report_of(const energy::Ledger& ledger, const gpuyard::Snapshot& now) {
  EnergyReport report;
  report.simulated = now.driver.info.simulated;
  report.taken_at = to_rfc3339(now.wall);
  std::int64_t all_mj = 0;
  for (const energy::SavedAccount& account : ledger.accounts()) {
    if (account.state.session.simulated != report.simulated) continue;
    all_mj += account.state.amounts.device_mj();
    report.gpus.push_back(gpu_energy_of(account, now));
  }
  if (!report.gpus.empty()) report.joules = joules_of(all_mj);
  for (const DeviceState& device : now.devices) {
    const std::string& uuid = device.info.uuid;
    if (uuid.empty() || std::ranges::find(report.gpus, uuid, &GpuEnergy::uuid) != report.gpus.end())
      continue;
    GpuEnergy unknown;
    unknown.index = index_of(uuid, now);
    unknown.uuid = uuid;
    unknown.why = missing_energy_reason(uuid, now);
    report.gpus.push_back(std::move(unknown));
  }
  sort_gpus(report.gpus);
  add_unknown_notes(report);
  report.partial = std::ranges::any_of(report.gpus, [](const GpuEnergy& gpu) {
    return !gpu.joules || (gpu.index && gpu.why) ||
           gpu.unknown_seconds >= energy::seconds_of(energy::kMinNoticeableGap);
  });
  return report;
}

EnergyWindow energy_window_of(const energy::WindowResult& result, const gpuyard::Snapshot& now) {
  const energy::Window& window = result.window;
  EnergyWindow out;
  out.id = window.id;
  if (!window.name.empty()) out.name = window.name;
  out.owner_uid = window.owner;
  out.simulated = window.simulated;
  out.began_at = to_rfc3339(window.began_wall);
  out.ends_at = to_rfc3339(window.ends_at_wall());
  out.seconds = seconds_of(result.length);
  if (result.is_known()) out.joules = joules_of(result.energy_mj());
  out.partial = result.is_partial();
  for (const energy::GpuResult& gpu : result.gpus) {
    out.gpus.push_back({index_of(gpu.uuid, now), gpu.uuid,
                        gpu.known ? std::optional(joules_of(gpu.energy_mj)) : std::nullopt,
                        seconds_of(gpu.length), energy::mean_watts(gpu), energy::peak_watts(gpu),
                        gpu.estimated, gpu.epochs_crossed > 0, gpu.epochs_crossed,
                        seconds_of(gpu.unknown), seconds_of(gpu.age),
                        missing_energy_reason(gpu.uuid, now)});
  }
  sort_gpus(out.gpus);
  add_unknown_notes(out);
  return out;
}

Result<energy::WindowRequest> window_request_of(const EnergyWindowRequest& request, uid_t owner) {
  energy::WindowRequest out{.name = request.name.value_or(""), .owner = owner};
  for (const GpuName& gpu : request.gpus.value_or(std::vector<GpuName>{})) {
    out.gpus.push_back(gpu.text);
  }
  if (request.most_seconds) out.max_duration = std::chrono::seconds(*request.most_seconds);
  return out;
}

void put_json(std::string& out, const GpuName& name) {
  json::put_string(out, name.text);
}

void read_json(const boost::json::value& from, GpuName& to, const std::string& path,
               json::Problems& problems) {
  if (const auto* text = from.if_string();
      text != nullptr && !text->empty() && text->size() <= kMaxGpuNameBytes) {
    to.text = std::string_view(*text);
  } else if (const auto* index = from.if_int64(); index != nullptr && *index >= 0) {
    to.text = std::to_string(*index);
  } else {
    problems.add(path, "must be an index, a UUID or a PCI address");
  }
}

void schema_of(std::type_identity<GpuName>, boost::json::object& out) {
  out = {{"type", boost::json::array{"string", "integer"}},
         {"minimum", 0},
         {"maximum", INT64_MAX},
         {"minLength", 1},
         {"maxLength", kMaxGpuNameBytes}};
}

}  // namespace gpuyard::protocol
