#include "cli/top/rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/saturated.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/read/gpu_filter.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli::top {
namespace {

using protocol::Device;
using protocol::Lease;
using protocol::Process;

static_assert(std::ranges::equal(kGpuFields, std::span(kFields).first<kGpuFields.size()>()));

const protocol::Leases* leases_of(const ScreenData& data) {
  return data.leases ? &*data.leases : nullptr;
}

template <class T>
FilterValue number(const std::optional<T>& value, double unit = 1) {
  return value ? FilterValue(static_cast<double>(*value) / unit) : FilterValue();
}

FilterValue word(const std::optional<std::string>& text) {
  return text ? FilterValue(*text) : FilterValue();
}

std::vector<FilterValue> values_of(const Process& process, const std::vector<FilterValue>& of_gpu,
                                   const Lease* lease) {
  constexpr double kGibi = 1024.0 * 1024 * 1024;
  std::vector<FilterValue> values = of_gpu;
  if (process.user || process.uid) {
    values[field_index("user")] = process.user.value_or(std::to_string(process.uid.value_or(0)));
  }
  const std::vector<FilterValue> own = {static_cast<double>(process.pid),
                                        word(process.command),
                                        number(process.sm_percent),
                                        number(process.memory_bytes, kGibi),
                                        number(process.cpu_percent),
                                        lease != nullptr ? FilterValue(lease->id) : FilterValue(),
                                        word(process.pod),
                                        word(process.slurm_job)};
  values.insert(values.end(), own.begin(), own.end());
  return values;
}

TextRow row_of_waiting(const Lease& lease) {
  const auto& position = lease.place;
  return {
      fmt::format("{}{}", kLeasePrefix, lease.id),
      fmt::format(
          "{:>3} {:9} {:>7}     {:14} {}", position ? std::to_string(position->position) : "?",
          lease.user.value_or(std::to_string(lease.uid)), lease.wanted_gpus,
          position && position->expected_s ? "about " + length_text(*position->expected_s) : "-",
          position ? position->text : "")};
}

TextRow row_of_holder(const Lease& lease) {
  std::string gpus;
  for (const protocol::LeasedGpu& gpu : lease.gpus) {
    gpus += gpus.empty() ? "" : ",";
    gpus += gpu.index ? std::to_string(*gpu.index) : "?";
  }
  std::string text = fmt::format("    {:9} GPU {}", holder_text(lease), gpus);
  if (lease.use) {
    text += ", for " + short_duration(saturated_cast<std::int64_t>(to_seconds(lease.use->held)));
    if (lease.use->energy_mj) {
      text += ", " + joules_text(static_cast<double>(*lease.use->energy_mj) / 1000);
    }
    const double idle = to_seconds(lease.use->idle.value_or(Duration::zero()));
    if (idle >= 60) text += ", idle " + length_text(idle);
  }
  if (lease.overdue) text += ", overdue";
  if (!lease.detail.empty()) text += ": " + lease.detail;
  return {fmt::format("{}{}", kLeasePrefix, lease.id), text,
          lease.overdue ? Tone::warning : Tone::plain};
}

// The name of its process: the unleased process's own record does not have the start.
std::string name_of(const protocol::UnleasedProcess& unleased, const ScreenData& data) {
  for (const Device& device : data.snapshot.devices) {
    if (device.uuid != unleased.uuid || !device.processes) continue;
    const auto found = std::ranges::find(*device.processes, unleased.pid, &Process::pid);
    if (found != device.processes->end()) return top::name_of(*found, device);
  }
  return "";
}

std::string index_of(const std::optional<protocol::AlertGpu>& gpu) {
  if (!gpu) return "-";
  return gpu->index ? std::to_string(*gpu->index) : printable(gpu->uuid);
}

}  // namespace

std::size_t field_index(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kFields, name) - kFields.begin());
}

// A GPU that could not be opened has no UUID.
std::string name_of(const Device& device) {
  return device.uuid.empty() ? fmt::format("index:{}", device.index) : device.uuid;
}

std::string name_of(const Process& process, const Device& device) {
  return fmt::format("{}{} {} {}", kProcessPrefix, process.pid,
                     process.started_after_boot_ms.value_or(-1), name_of(device));
}

std::vector<GpuRow> gpu_rows(const ScreenData& data) {
  std::vector<GpuRow> rows;
  rows.reserve(data.snapshot.devices.size());
  for (const Device& device : data.snapshot.devices) {
    auto values = filter_values(device, leases_of(data));
    values.resize(kFields.size());
    rows.push_back({&device, name_of(device), std::move(values)});
  }
  return rows;
}

std::vector<ProcessRow> process_rows(const ScreenData& data) {
  std::vector<ProcessRow> rows;
  for (const Device& device : data.snapshot.devices) {
    if (!device.processes || device.processes->empty()) continue;
    const auto of_gpu = filter_values(device, leases_of(data));
    const Lease* const lease = data.leases ? cli::lease_of(*data.leases, device.uuid) : nullptr;
    for (const Process& process : *device.processes) {
      rows.push_back(
          {&process, &device, name_of(process, device), values_of(process, of_gpu, lease)});
    }
  }
  return rows;
}

std::vector<TextRow> queue_rows(const ScreenData& data) {
  std::vector<TextRow> rows;
  if (!data.queue) return rows;
  for (const Lease& lease : data.queue->waiting) rows.push_back(row_of_waiting(lease));
  if (rows.empty()) rows.push_back({"", "No claims are waiting.", Tone::faint});
  if (data.leases && !data.leases->leases.empty()) {
    rows.push_back({"", "leases", Tone::faint});
    for (const Lease& lease : data.leases->leases) rows.push_back(row_of_holder(lease));
  }
  if (!std::ranges::all_of(data.queue->withheld, [&](const protocol::WithheldGpu& one) {
        return is_listed_as_unleased(one, *data.queue);
      })) {
    rows.push_back({"", "withheld", Tone::faint});
  }
  for (const protocol::WithheldGpu& one : data.queue->withheld) {
    if (is_listed_as_unleased(one, *data.queue)) continue;
    rows.push_back({fmt::format("{}{}", kWithheldPrefix, one.uuid),
                    fmt::format("    GPU {}: {}", one.index, one.text), Tone::warning});
  }
  if (!data.queue->squatters.empty()) rows.push_back({"", "no lease", Tone::faint});
  for (const protocol::UnleasedProcess& one : data.queue->squatters) {
    rows.push_back(
        {name_of(one, data),
         fmt::format("    {:9} GPU {} PID {} {} {}", one.user.value_or(std::to_string(one.uid)),
                     one.index, one.pid, short_bytes(one.memory_bytes), one.command),
         Tone::warning, one.resolve});
  }
  for (const std::string& note : data.queue->notes) rows.push_back({"", note, Tone::bad});
  return rows;
}

std::vector<TextRow> alert_rows(const ScreenData& data) {
  std::vector<TextRow> rows;
  if (!data.alerts) return rows;
  for (const protocol::Alert& alert : data.alerts->alerts) {
    const bool severe = alert.level >= AlertLevel::error;
    const std::string state = alert.acknowledged ? "acked" : alert.silenced ? "muted" : "firing";
    rows.push_back(
        {fmt::format("{}{}", kAlertPrefix, alert.number),
         fmt::format("{:>4} {:8} {:>3} {:18} {:7} {}", alert.number, enum_name(alert.level),
                     index_of(alert.device), alert.rule, state, alert.message),
         severe ? Tone::bad : Tone::warning});
    if (!alert.advice.empty()) rows.push_back({"", "     " + alert.advice, Tone::faint});
  }
  for (const protocol::PendingAlert& one : data.alerts->pending) {
    rows.push_back({"", fmt::format("     pending  {:>3} {:18} for {} of {}", index_of(one.gpu),
                                    one.rule, length_text(one.for_s), length_text(one.hold_s))});
  }
  if (rows.empty()) rows.push_back({"", "No alerts are firing.", Tone::good});
  return rows;
}

std::vector<TextRow> usage_rows(const ScreenData& data) {
  std::vector<TextRow> rows;
  if (!data.usage) return rows;
  const auto add = [&](const protocol::UsageRow& row, const std::string& key, Tone tone) {
    rows.push_back(
        {"",
         fmt::format("{:12} {:>9} {:>10} {:>6} {:>6}  {}", key, hours_text(row.gpu_hours),
                     row.energy_kwh ? kwh_text(*row.energy_kwh) : std::string(kNothing),
                     row.mean_utilization_percent
                         ? fmt::format("{:.0f}%", *row.mean_utilization_percent)
                         : std::string(kNothing),
                     row.leases, protocol::text_of(row.estimate)),
         tone});
  };
  for (const protocol::UsageRow& row : data.usage->rows) add(row, row.key, Tone::plain);
  if (data.usage->unleased.gpu_hours > 0) add(data.usage->unleased, "(no lease)", Tone::faint);
  for (const std::string& note : data.usage->notes) rows.push_back({"", note, Tone::warning});
  return rows;
}

bool is_before(const FilterValue& a, const FilterValue& b, bool descending) {
  const bool a_known = !std::holds_alternative<std::monostate>(a);
  const bool b_known = !std::holds_alternative<std::monostate>(b);
  if (!a_known || !b_known) return a_known && !b_known;
  return descending ? b < a : a < b;
}

std::string age_of(const std::optional<WallTime>& since, WallTime now) {
  if (!since) return std::string(kNothing);
  return short_duration(std::chrono::duration_cast<std::chrono::seconds>(now - *since).count());
}

std::string short_bytes(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return std::string(kNothing);
  constexpr double kMebi = 1024.0 * 1024;
  constexpr double kGibi = kMebi * 1024;
  const auto amount = static_cast<double>(*bytes);
  if (amount >= 10 * kGibi) return fmt::format("{:.0f}G", amount / kGibi);
  return amount >= kGibi / 10 ? fmt::format("{:.1f}G", amount / kGibi)
                              : fmt::format("{:.0f}M", amount / kMebi);
}

}  // namespace gpuyard::cli::top
