#include "cli/lease/lease_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/local_time.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {

std::string hours_text(double hours) {
  constexpr double kMinHours = 0.005;
  return hours > 0 && hours < kMinHours ? "<0.01" : fmt::format("{:.2f}", hours);
}

std::string kwh_text(double kwh) {
  constexpr double kWattHour = 1e-3;
  constexpr double kJoulesInKwh = 3.6e6;
  if (kwh >= 1) return fmt::format("{:.3f} kWh", kwh);
  if (kwh >= kWattHour) return fmt::format("{:.1f} Wh", kwh / kWattHour);
  return joules_text(kwh * kJoulesInKwh);
}

bool is_listed_as_unleased(const protocol::WithheldGpu& withheld, const protocol::Queue& queue) {
  return withheld.why == "squatted" &&
         std::ranges::count(queue.squatters, withheld.uuid, &protocol::UnleasedProcess::uuid) > 0;
}

namespace {

using protocol::Lease;
using State = gpuyard::lease::LeaseState;

// The order in which columns are dropped where there is not room for all; the last goes first.
struct LeaseColumn {
  enum Drops : int { never, ids, comments, idle, peak, use, energy, pids };
};

const std::string kUnknown(kNothing);

std::string moment_text(const std::optional<WallTime>& moment, WallTime now) {
  return moment ? local_moment(*moment, now) : kUnknown;
}

std::string energy_text(const std::optional<protocol::LeaseUsage>& use) {
  if (!use || !use->energy_mj) return kUnknown;
  constexpr double kMillijoules = 1000;
  return (use->estimated ? "~" : "") +
         joules_text(static_cast<double>(*use->energy_mj) / kMillijoules);
}

// Returns the mean utilisation of all its GPUs now.
std::string utilization_text(const Lease& lease) {
  if (lease.gpus.empty()) return kUnknown;
  std::int64_t sum = 0;
  for (const protocol::LeasedGpu& gpu : lease.gpus) {
    if (!gpu.utilization_percent) return kUnknown;
    sum += *gpu.utilization_percent;
  }
  return fmt::format("{} %", sum / static_cast<std::int64_t>(lease.gpus.size()));
}

std::string idle_text(const std::optional<protocol::LeaseUsage>& use) {
  if (!use || !use->idle) return kUnknown;
  return *use->idle > Duration::zero() ? length_text(to_seconds(*use->idle)) : "0 s";
}

Cell state_cell(const Lease& lease) {
  if (lease.state == State::draining) return {"draining", Tone::warning};
  if (lease.overdue) return {"overdue", Tone::warning};
  return {std::string(enum_name(lease.state))};
}

std::string note_text(const Lease& lease) {
  std::string text = lease.note;
  if (!lease.detail.empty()) text += (text.empty() ? "" : "; ") + lease.detail;
  return text;
}

std::string percent_text(const std::optional<double>& percent) {
  return percent ? fmt::format("{:.0f} %", *percent) : kUnknown;
}

std::string usage_remarks(const protocol::UsageRow& row) {
  constexpr double kNoticeable = 0.01;
  std::string text = protocol::text_of(row.estimate);
  if (row.energy_estimated) text += text.empty() ? "energy estimated" : ", energy estimated";
  if (row.energy_kwh && row.energy_unknown_gpu_hours >= kNoticeable) {
    text += fmt::format("{}energy unknown for {} GPU-hours", text.empty() ? "" : ", ",
                        hours_text(row.energy_unknown_gpu_hours));
  }
  return text;
}

void add_usage(FittedTable& table, const protocol::UsageRow& row, const std::string& key) {
  table.add({{key},
             {std::to_string(row.leases)},
             {hours_text(row.gpu_hours)},
             {row.energy_kwh ? kwh_text(*row.energy_kwh) : kUnknown},
             {percent_text(row.mean_utilization_percent)},
             {row.peak_memory_bytes ? bytes_text(*row.peak_memory_bytes) : kUnknown},
             {usage_remarks(row)}});
}

// The order in which columns are dropped where there is not room for all; the last goes first.
struct QueueColumn {
  enum Drops : int { never, ids, comments, since, expected };
};

Printable waiting_table(const std::vector<protocol::Lease>& waiting, WallTime now,
                        const Screen& screen) {
  FittedTable table{{{"POSITION", true},
                     {"USER"},
                     {"REQUESTS"},
                     {heading_with_zone("SINCE", now), false, QueueColumn::since},
                     {"EXPECTED WAIT", true, QueueColumn::expected},
                     {"REASON"},
                     {"NOTE", false, QueueColumn::comments},
                     {"ID", false, QueueColumn::ids}}};
  for (const protocol::Lease& lease : waiting) {
    const auto& position = lease.place;
    table.add({{position ? std::to_string(position->position) : kUnknown},
               {lease.user.value_or(std::to_string(lease.uid))},
               {number_of_gpus(lease.wanted_gpus)},
               {local_moment(lease.requested_wall, now)},
               {position && position->expected_s ? length_text(*position->expected_s) : kUnknown},
               {position ? position->text : kUnknown},
               {lease.note},
               {lease.id}});
  }
  return table.text(screen);
}

Printable unleased_process_text(const protocol::UnleasedProcess& one) {
  std::string text =
      fmt::format("GPU {} is used without a lease by process {} ({}) of {}", one.index, one.pid,
                  one.command, one.user ? *one.user : fmt::format("uid {}", one.uid));
  if (one.memory_bytes) text += ", " + bytes_text(*one.memory_bytes);
  if (one.age_s) text += ", for " + length_text(*one.age_s);
  return formatted("{}:\n    {}\n", text, one.resolve);
}

}  // namespace

Printable lease_table(const protocol::Leases& leases, WallTime now, const Screen& screen) {
  if (leases.leases.empty()) return "No leases.\n" + simulated_text(leases.simulated);
  FittedTable table{{{"GPUS"},
                     {"USER"},
                     {"PID", true, LeaseColumn::pids},
                     {"STATE"},
                     {heading_with_zone("SINCE", now)},
                     {heading_with_zone("UNTIL", now)},
                     {"UTIL", true, LeaseColumn::use},
                     {"IDLE", true, LeaseColumn::idle},
                     {"ENERGY", true, LeaseColumn::energy},
                     {"NOTE", false, LeaseColumn::comments},
                     {"ID", false, LeaseColumn::ids}}};
  for (const Lease& lease : leases.leases) {
    const std::string idle = idle_text(lease.use);
    constexpr Duration kNoticeable = std::chrono::minutes(10);
    const bool wasted = lease.use && lease.use->idle.value_or(Duration::zero()) >= kNoticeable;
    table.add({{indexes_text(lease.gpus)},
               {holder_text(lease)},
               {lease.pid ? std::to_string(*lease.pid) : kUnknown},
               state_cell(lease),
               {moment_text(lease.granted_wall, now)},
               {moment_text(lease.until, now)},
               {utilization_text(lease)},
               {idle, wasted ? Tone::warning : Tone::plain},
               {energy_text(lease.use)},
               {note_text(lease)},
               {lease.id}});
  }
  return table.text(screen) + simulated_text(leases.simulated);
}

Printable lease_page(const Lease& lease, WallTime now) {
  Printable text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += formatted("{:<12}{}\n", name, value);
  };
  line("lease", lease.id);
  line("state", std::string(enum_name(lease.state)) + (lease.overdue ? ", overdue" : ""));
  line("user", lease.user.value_or(std::to_string(lease.uid)));
  line("pod", lease.pod);
  line("binding", std::string(enum_name(lease.binding)));
  if (lease.pid) line("pid", std::to_string(*lease.pid));
  line("note", lease.note);
  if (lease.gpus.empty()) line("requests", number_of_gpus(lease.wanted_gpus));
  for (const protocol::LeasedGpu& gpu : lease.gpus) {
    line("GPU", fmt::format("{} {} {}", index_text(gpu.index), short_name(gpu.name), gpu.uuid));
  }
  const auto moment = [&](std::string_view name, const std::optional<WallTime>& at) {
    if (at) line(name, local_moment(*at, now) + " " + zone_name(now));
  };
  moment("submitted", lease.requested_wall);
  moment("granted", lease.granted_wall);
  moment("until", lease.until);
  moment("ended", lease.ended_wall);
  if (lease.end_reason) line("ending", std::string(enum_name(*lease.end_reason)));
  line("reason", lease.detail);
  if (lease.place) line("position", waiting_text(lease));
  if (lease.use) line("usage", summary_text(lease, to_seconds(lease.use->held)));
  return text;
}

Printable usage_table(const protocol::Usage& usage, const Screen& screen) {
  const std::string of_none = usage.by.starts_with("pod") ? "(no pod)" : "(no job)";
  std::string key = usage.by == "host"            ? "machine"
                    : usage.by == "pod_namespace" ? "namespace"
                                                  : usage.by;
  for (char& c : key)
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c == '_' ? ' ' : c;
  FittedTable table{{{key},
                     {"LEASES", true, LeaseColumn::comments},
                     {"GPU-HOURS", true},
                     {"ENERGY", true, LeaseColumn::energy},
                     {"MEAN UTIL", true, LeaseColumn::use},
                     {"PEAK MEMORY", true, LeaseColumn::peak},
                     {"REMARKS", false, LeaseColumn::comments}}};
  for (const protocol::UsageRow& row : usage.rows) {
    add_usage(table, row, row.key.empty() ? of_none : row.key);
  }
  if (usage.unleased.gpu_hours > 0) add_usage(table, usage.unleased, "(no lease)");
  Printable text = table.text(screen);
  if (usage.rows_left_out > 0) text += formatted("{} more rows.\n", usage.rows_left_out);
  for (const std::string& note : usage.notes) text += formatted("{}\n", note);
  return text + simulated_text(usage.simulated);
}

Printable withheld_text(const std::vector<protocol::WithheldGpu>& withheld, WallTime now) {
  Printable text;
  for (const protocol::WithheldGpu& one : withheld) {
    text += formatted("GPU {} is withheld from leasing: {}{}\n", one.index,
                      one.text.empty() ? one.why : one.text,
                      one.since ? " (since " + local_moment(*one.since, now) + ")" : "");
  }
  return text;
}

Printable queue_text(const protocol::Queue& queue, WallTime now, const Screen& screen) {
  Printable text = queue.waiting.empty() ? Printable("No claims are waiting.\n")
                                         : waiting_table(queue.waiting, now, screen);
  const auto shown = static_cast<std::int64_t>(queue.waiting.size());
  if (queue.pending_claimers > shown && shown > 0) {
    text += formatted("{} more waiting.\n", queue.pending_claimers - shown);
  }
  for (const protocol::UnleasedProcess& one : queue.squatters) text += unleased_process_text(one);
  auto withheld = queue.withheld;
  std::erase_if(withheld, [&](const auto& one) { return is_listed_as_unleased(one, queue); });
  text += withheld_text(withheld, now);
  for (const std::string& note : queue.notes) text += formatted("{}\n", note);
  return text + simulated_text(queue.simulated);
}

}  // namespace gpuyard::cli
