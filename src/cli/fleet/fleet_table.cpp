#include "cli/fleet/fleet_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/local_time.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"

namespace gpuyard::cli {
namespace {

using namespace fleet;
using protocol::GpuUse;
using Number = std::optional<std::int64_t>;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
const Cell kUnknownCell{std::string(kNothing), Tone::faint};

// The order in which columns are dropped where there is not room for all; the last goes first.
struct FleetColumn {
  enum Drops : int { never, models, waiting, memory, power, temperature, uuids };
};

Cell number_cell(const Number& number, std::string_view unit, Tone tone = Tone::plain) {
  if (!number) return kUnknownCell;
  return {fmt::format("{}{}{}", *number, unit.empty() ? "" : " ", unit), tone};
}

Cell memory_cell(const Number& mebibytes) {
  if (!mebibytes) return kUnknownCell;
  // A broken answer may hold any number.
  return {bytes_text(std::clamp<std::int64_t>(*mebibytes, 0, INT64_MAX / kMebibyte) * kMebibyte)};
}

// A sum with a + where it lacks some GPUs: at least that.
Cell at_least(Cell sum, std::int64_t unknown) {
  if (unknown > 0 && sum.text != kUnknownCell.text) sum.text += "+";
  return sum;
}

Cell temperature_cell(const Number& celsius, const Screen& screen) {
  return number_cell(celsius, screen.utf8 ? "\u00b0C" : "C",
                     celsius ? temperature_tone(*celsius) : Tone::plain);
}

// Faint where there is none, so that what is there can be seen.
Cell count_cell(std::int64_t count, Tone tone = Tone::plain) {
  return {std::to_string(count), count == 0 ? Tone::faint : tone};
}

std::string fleet_models_text(const std::vector<FleetModel>& models) {
  std::vector<std::string> parts;
  for (const FleetModel& model : models) {
    const std::string name = short_name(model.name);
    parts.push_back(models.size() == 1 ? name : fmt::format("{} {}", model.gpus, name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The name of GPUs that are all of one model, else each model with its number.
std::string one_name_of(const std::vector<std::string>& names) {
  const bool same =
      std::ranges::all_of(names, [&](const auto& one) { return one == names.front(); });
  return same && !names.empty() ? short_name(names.front()) : models_text(names);
}

Tone tone_of(const std::optional<AlertLevel>& worst) {
  if (!worst || *worst == AlertLevel::info) return Tone::plain;
  return *worst == AlertLevel::warning ? Tone::warning : Tone::bad;
}

// The problems of a machine, for an administrator.
Cell node_remarks_cell(const FleetNode& node) {
  std::vector<std::string> parts;
  if (node.driver_error) parts.push_back(*node.driver_error);
  if (node.unwell > 0) parts.push_back(fmt::format("{} degraded or unhealthy", node.unwell));
  if (node.withheld > 0) parts.push_back(fmt::format("{} withheld", node.withheld));
  if (node.outside > 0) parts.push_back(fmt::format("{} used without a lease", node.outside));
  const Tone tone = node.driver_error || node.unwell > 0 ? Tone::bad : Tone::warning;
  return {fmt::format("{}", fmt::join(parts, ", ")), tone};
}

void add_silent_host(FittedTable& table, const FleetHost& host) {
  std::vector<Cell> row(table.columns.size(), kUnknownCell);
  row.front() = {host.host};
  row.back() = {host.same_as ? "same daemon as " + *host.same_as : "unreachable",
                host.same_as ? Tone::faint : Tone::bad};
  table.add(std::move(row));
}

Printable simulated_text(const FleetAnswer& answer) {
  return answer.simulated ? "Includes simulated GPUs.\n" : Printable();
}

std::string indexes_text(const std::vector<std::uint32_t>& indexes) {
  return fmt::format("{}", fmt::join(indexes, ","));
}

Cell use_cell(const FleetGpu& gpu) {
  if (gpu.use == GpuUse::free) return {"free", Tone::good};
  if (gpu.use == GpuUse::withheld) return {gpu.why.value_or("withheld"), Tone::warning};
  if (gpu.use == GpuUse::leased) return {"leased"};
  return {gpu.use == GpuUse::outside ? "used, no lease" : std::string(enum_name(gpu.use)),
          Tone::warning};
}

Cell health_cell(const std::optional<Health>& health) {
  if (!health) return kUnknownCell;
  const Tone tone = *health == Health::healthy    ? Tone::plain
                    : *health == Health::degraded ? Tone::warning
                                                  : Tone::bad;
  return {std::string(enum_name(*health)), tone};
}

std::string machines_text(std::size_t count) {
  return fmt::format("{} machine{}", count, count == 1 ? "" : "s");
}

// "97 machines, 776 GPUs, 312 free, 41.2 kW; 3 unreachable"
Printable totals_text(const FleetNodes& view) {
  const auto silent = std::ranges::count_if(
      view.hosts, [](const FleetHost& host) { return host.problem.has_value(); });
  constexpr double kKilo = 1000;
  const std::string power =
      view.power_w ? fmt::format("{:.1f}{} kW", static_cast<double>(*view.power_w) / kKilo,
                                 view.power_unknown > 0 ? "+" : "")
                   : std::string("power unknown");
  return formatted("{}, {}, {} free, {}{}", machines_text(view.nodes.size()),
                   number_of_gpus(view.gpus), view.free, power,
                   silent == 0 ? "" : fmt::format("; {} unreachable", silent));
}

// The UUID names a GPU whose index another one has.
Cell alert_gpu_cell(const protocol::Alert& alert) {
  if (!alert.device) return kUnknownCell;
  return {alert.device->index ? std::to_string(*alert.device->index) : alert.device->uuid};
}

}  // namespace

Printable nodes_text(const FleetNodes& view, const Screen& screen) {
  FittedTable table{{{"MACHINE"},
                     {"GPUS", true},
                     {"FREE", true},
                     {"UTIL", true},
                     {"MEMORY FREE", true, FleetColumn::memory},
                     {"HOTTEST", true, FleetColumn::temperature},
                     {"POWER", true, FleetColumn::power},
                     {"WAITING", true, FleetColumn::waiting},
                     {"ALERTS", true},
                     {"NAME", false, FleetColumn::models},
                     {"REMARKS"}}};
  auto node = view.nodes.begin();
  for (const FleetHost& host : view.hosts) {
    if (host.problem || host.same_as) {
      add_silent_host(table, host);
      continue;
    }
    table.add({{node->host},
               {std::to_string(node->gpus)},
               {std::to_string(node->free), node->free > 0 ? Tone::good : Tone::faint},
               number_cell(node->utilization_percent, "%"),
               at_least(memory_cell(node->memory_free_mib), node->memory_unknown),
               temperature_cell(node->hottest_c, screen),
               at_least(number_cell(node->power_w, "W"), node->power_unknown),
               count_cell(node->waiting),
               count_cell(node->alerts, tone_of(node->worst_alert)),
               {fleet_models_text(node->models)},
               node_remarks_cell(*node)});
    ++node;
  }
  return table.text(screen) + totals_text(view) + "\n" + simulated_text(view);
}

Printable gpus_text(const FleetGpus& view, const Screen& screen) {
  FittedTable table{{{"MACHINE"},
                     {"GPU", true},
                     {"NAME", false, FleetColumn::models},
                     {"USE"},
                     {"USER"},
                     {"UTIL", true},
                     {"MEMORY FREE", true, FleetColumn::memory},
                     {"TEMP", true, FleetColumn::temperature},
                     {"POWER", true, FleetColumn::power},
                     {"HEALTH"},
                     {"UUID", false, FleetColumn::uuids}}};
  for (const FleetGpu& gpu : view.gpus) {
    table.add({{gpu.host},
               {std::to_string(gpu.index)},
               {short_name(gpu.name)},
               use_cell(gpu),
               gpu.user ? Cell{*gpu.user} : kUnknownCell,
               number_cell(gpu.utilization_percent, "%"),
               memory_cell(gpu.memory_free_mib),
               temperature_cell(gpu.temperature_c, screen),
               number_cell(gpu.power_w, "W"),
               health_cell(gpu.health),
               {gpu.uuid}});
  }
  return table.text(screen) + simulated_text(view);
}

Printable users_text(const FleetUsers& view, const Screen& screen) {
  if (view.users.empty()) return "No GPU is in use.\n";
  FittedTable table{{{"USER"}, {"GPUS", true}, {"UTIL", true}, {"UNLEASED", true}, {"WHERE"}}};
  for (const FleetUser& user : view.users) {
    std::vector<std::string> locations;
    for (const HostGpus& location : user.places) {
      locations.push_back(location.host + ":" + indexes_text(location.indexes));
    }
    table.add({{user.user},
               {std::to_string(user.gpus)},
               number_cell(user.utilization_percent, "%"),
               count_cell(user.outside, Tone::warning),
               {fmt::format("{}", fmt::join(locations, " "))}});
  }
  return table.text(screen) + simulated_text(view);
}

Printable offers_text(const FleetOffers& view, const Screen& screen) {
  if (view.offers.empty()) return "";
  FittedTable table{{{"MACHINE"},
                     {"GPUS"},
                     {"FREE", true},
                     {"MEMORY FREE", true, FleetColumn::memory},
                     {"TEMP", true, FleetColumn::temperature},
                     {"LINKED"},
                     {"NAME", false, FleetColumn::models}}};
  for (const FleetOffer& offer : view.offers) {
    std::vector<std::uint32_t> indexes;
    std::vector<std::string> names;
    Number least;
    Number hottest;
    for (const protocol::FreeGpu& gpu : offer.gpus) {
      indexes.push_back(gpu.index);
      names.push_back(gpu.name);
      if (gpu.memory_free_bytes) {
        least = std::min(least.value_or(INT64_MAX), *gpu.memory_free_bytes / kMebibyte);
      }
      if (gpu.temperature_c) hottest = std::max(hottest.value_or(INT64_MIN), *gpu.temperature_c);
    }
    table.add({{offer.host},
               {indexes_text(indexes)},
               {std::to_string(offer.free)},
               memory_cell(least),
               temperature_cell(hottest, screen),
               offer.linked ? Cell{"NVLink"} : kUnknownCell,
               {one_name_of(names)}});
  }
  return table.text(screen);
}

Printable claims_text(const FleetQueue& view, WallTime now, const Screen& screen) {
  if (view.waiting.empty()) return "No claims are waiting.\n";
  FittedTable table{{{"MACHINE"},
                     {"POSITION", true},
                     {"USER"},
                     {"GPUS", true},
                     {heading_with_zone("SINCE", now)},
                     {"EXPECTED WAIT", true, FleetColumn::waiting},
                     {"REASON"}}};
  for (const FleetClaim& claim : view.waiting) {
    const protocol::Lease& lease = claim.lease;
    const auto& position = lease.place;
    table.add(
        {{claim.host},
         position ? Cell{std::to_string(position->position)} : kUnknownCell,
         {lease.user ? *lease.user : fmt::format("uid {}", lease.uid)},
         {std::to_string(lease.wanted_gpus)},
         {local_moment(lease.requested_wall, now)},
         position && position->expected_s ? Cell{length_text(*position->expected_s)} : kUnknownCell,
         {position ? position->text : ""}});
  }
  return table.text(screen) + simulated_text(view);
}

Printable firing_text(const FleetAlerts& view, WallTime now, const Screen& screen) {
  if (view.alerts.empty()) return "No alerts are firing.\n";
  FittedTable table{{{"MACHINE"},
                     {"ALERT", true},
                     {"LEVEL"},
                     {"GPU", true},
                     {heading_with_zone("SINCE", now)},
                     {"MESSAGE"}}};
  for (const FleetAlert& one : view.alerts) {
    const protocol::Alert& alert = one.alert;
    table.add({{one.host},
               {std::to_string(alert.number)},
               {std::string(name_of(alert.level)), tone_of(alert.level)},
               alert_gpu_cell(alert),
               {local_moment(alert.fired, now)},
               {alert.message}});
  }
  return table.text(screen) + simulated_text(view);
}

Printable diagnosis_text(const FleetDiagnosis& view, const Screen& screen) {
  Printable text;
  if (view.healthy) {
    text = formatted("{} checked, no problems found{}.\n", machines_text(view.hosts.size()),
                     view.unknown.empty()
                         ? ": versions, drivers, UIDs, clocks, munge keys and configuration match, "
                           "and no GPU is listed twice"
                         : "");
  }
  for (const FleetFinding& finding : view.findings) {
    const Tone tone = finding.level == AlertLevel::error ? Tone::bad : Tone::warning;
    text += paragraph(screen, tone, finding.text);
  }
  for (const FleetUnknown& one : view.unknown) {
    text += paragraph(screen, Tone::plain, "unknown: " + one.text);
  }
  return text;
}

Printable problems_text(const FleetAnswer& answer) {
  Printable text;
  for (const FleetHost& host : answer.hosts) {
    if (host.problem) {
      text += formatted("{}: {}\n", host.host, *host.problem);
    } else if (host.same_as) {
      text += formatted("{}: same daemon as {}; counted once\n", host.host, *host.same_as);
    }
  }
  return text;
}

}  // namespace gpuyard::cli
