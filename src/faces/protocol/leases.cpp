// Converts the bodies of lease requests to the units of `lease`. The reader of requests has checked
// the bounds of their fields.
#include "faces/protocol/leases.h"

#include <algorithm>
#include <array>
#include <csignal>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/saturated.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::protocol {
namespace {

std::optional<Duration> length_of(const std::optional<double>& seconds) {
  return seconds ? std::optional(duration_from_seconds(*seconds)) : std::nullopt;
}

// Returns the ids sorted, so that a repeated claim equals the first.
Result<std::vector<DeviceId>> resolve_requested_gpus(const LeaseRequest& request,
                                                     const gpuyard::Snapshot& snapshot,
                                                     const lease::LeaseSpec* known) {
  std::vector<DeviceId> ids;
  if (!request.among) return ids;
  // An index may mean another GPU by now; a UUID always means the same.
  const auto is_index_or_known = [&](const GpuName& name) {
    const bool index = std::ranges::all_of(name.text, [](char c) { return c >= '0' && c <= '9'; });
    return index || std::ranges::find(known->allowed_gpus, name.text) != known->allowed_gpus.end();
  };
  if (known && request.among->size() == known->allowed_gpus.size() &&
      std::ranges::all_of(*request.among, is_index_or_known)) {
    return known->allowed_gpus;
  }
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  for (const GpuName& name : *request.among) {
    auto found = find_device(snapshot, name.text);
    if (!found) return std::move(found).error().in("/among");
    ids.push_back((*found)->info.id);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

Result<lease::Binding> binding_of(const LeaseRequest& request) {
  const auto binding = request.binding ? enum_from_name<lease::Binding>(*request.binding)
                                       : std::optional(lease::Binding::process);
  if (binding) return *binding;
  return Error{Errc::invalid, fmt::format("/binding: expected process, run or detached; got \"{}\"",
                                          printable(*request.binding))};
}

Result<void> check_ttl(const LeaseRequest& request, lease::Binding binding) {
  const bool detached = binding == lease::Binding::detached;
  if (detached == request.ttl_s.has_value()) return {};
  return Error{Errc::invalid, detached ? "/ttl_s: required for a detached lease, in seconds"
                                       : "/ttl_s: only allowed for a detached lease"};
}

constexpr double kSecondsInHour = 3600;
constexpr double kMillijoulesInKwh = 3.6e9;

UsageRow row_of(const usage::UsageTotal& sum, const UserNames& names, usage::UsageGrouping by) {
  UsageRow row;
  row.key = sum.key;
  const bool of_pods = sum.uid == lease::kPodsUid;
  if (!of_pods) row.uid = sum.uid;
  if (by == usage::UsageGrouping::user && of_pods) {
    row.key = kPodsUser;
  } else if (by == usage::UsageGrouping::user && sum.uid) {
    if (const auto name = names.find(*sum.uid); name != names.end()) row.key = name->second;
  }
  row.gpu_hours = sum.held_s / kSecondsInHour;
  if (sum.counted_s > 0 || sum.energy_mj > 0) {
    row.energy_kwh = static_cast<double>(sum.energy_mj) / kMillijoulesInKwh;
  }
  row.energy_estimated = sum.estimated_mj > 0;
  row.mean_utilization_percent = sum.mean_utilization_percent;
  row.peak_memory_bytes = sum.peak_bytes;
  row.leases = sum.leases;
  row.energy_unknown_gpu_hours = std::max(sum.held_s - sum.counted_s, 0.0) / kSecondsInHour;
  return row;
}

// A user's name may be anything that a directory service returns.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

void put_row(std::string& out, const UsageRow& row) {
  const auto put = [&](const std::optional<double>& value) {
    out += ',';
    if (value) json::put_double(out, *value);
  };
  out += quoted(row.key);
  out += fmt::format(",{}", row.uid ? std::to_string(*row.uid) : "");
  put(row.gpu_hours);
  put(row.energy_kwh);
  out += row.energy_estimated ? ",true" : ",false";
  put(row.mean_utilization_percent);
  out += fmt::format(",{},{}", row.peak_memory_bytes ? std::to_string(*row.peak_memory_bytes) : "",
                     row.leases);
  put(row.energy_unknown_gpu_hours);
  const Estimate estimate = row.estimate.value_or(Estimate{});
  put(estimate.cost);
  out += ',' + quoted(estimate.currency.value_or(""));
  put(estimate.co2_g);
  out += '\n';
}

}  // namespace

Result<lease::LeaseSpec> lease_spec_of(const LeaseRequest& request,
                                       const gpuyard::Snapshot& snapshot,
                                       const lease::LeaseSpec* known) {
  if (request.id) {
    if (auto fits = lease::check_id(*request.id); !fits) return std::move(fits).error().in("/id");
  }
  const auto binding = GPUYARD_TRY(binding_of(request));
  GPUYARD_TRY(check_ttl(request, binding));
  auto among = GPUYARD_TRY(resolve_requested_gpus(request, snapshot, known));
  lease::LeaseSpec spec;
  spec.gpus = static_cast<unsigned>(request.gpus.value_or(1));
  spec.min_free_bytes = request.min_free_bytes.value_or(0);
  spec.model = request.model.value_or("");
  spec.allowed_gpus = std::move(among);
  spec.max_hold_time = length_of(request.max_time_s);
  spec.wait_timeout = length_of(request.wait_s);
  spec.binding = binding;
  spec.ttl = duration_from_seconds(request.ttl_s.value_or(0));
  spec.note = request.note.value_or("");
  GPUYARD_TRY(check_spec(spec));
  return spec;
}

Duration answer_timeout_of(const LeaseRequest& request) {
  return length_of(request.answer_within_s).value_or(kDefaultAnswerTimeout);
}

Result<int> signal_of(std::string_view name) {
  struct Signal {
    std::string_view name;
    int number;
  };
  static constexpr std::array<Signal, 4> kSignals{
      {{"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"KILL", SIGKILL}}};
  for (const Signal& one : kSignals) {
    if (one.name == name) return one.number;
  }
  return Error{Errc::invalid,
               fmt::format("signal: expected TERM, INT, HUP or KILL; got \"{}\"", printable(name))};
}

Usage usage_of(const usage::UsageReport& answer, const usage::UsageQuery& query,
               const UserNames& names) {
  Usage usage;
  usage.simulated = query.simulated;
  usage.since = to_rfc3339(WallTime(query.since));
  usage.by = boost::describe::enum_to_string(query.grouping, "");
  usage.rows_left_out = answer.left_out;
  for (const usage::UsageTotal& sum : answer.totals) {
    usage.rows.push_back(row_of(sum, names, query.grouping));
  }
  usage.unleased = row_of(answer.unleased, {}, usage::UsageGrouping::gpu);
  return usage;
}

void put_estimates(Usage& usage, const Tariff& tariff) {
  const auto put = [&](UsageRow& row) {
    if (row.energy_kwh) row.estimate = estimate_of(tariff, *row.energy_kwh);
  };
  for (UsageRow& row : usage.rows) put(row);
  put(usage.unleased);
}

std::string csv_of(const Usage& usage) {
  std::string out;
  for (const UsageRow& row : usage.rows) put_row(out, row);
  put_row(out, usage.unleased);
  return out;
}

}  // namespace gpuyard::protocol
