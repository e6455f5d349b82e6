#include "protocol/usage.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

constexpr double kSecondsInHour = 3600;
constexpr double kMillijoulesInKwh = 3.6e9;

UsageRow row_of(const lease::UseSum& sum, const UserNames& names, lease::UseBy by) {
  UsageRow row;
  row.key = sum.key;
  row.uid = sum.uid;
  if (by == lease::UseBy::user && sum.uid) {
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

// A user's name may be anything that a directory service says.
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
  out += '\n';
}

}  // namespace

LeaseUse lease_use_of(const lease::Use& use) {
  LeaseUse out;
  out.held_s = to_seconds(use.held);
  out.energy_mj = use.energy_mj;
  out.energy_estimated = use.estimated;
  out.mean_utilization_percent = use.mean_utilization_percent;
  out.peak_memory_bytes = use.peak_bytes;
  if (use.idle) out.idle_s = to_seconds(*use.idle);
  out.energy_unknown_s = to_seconds(use.unknown);
  out.settled = use.settled;
  return out;
}

Usage usage_of(const lease::UseAnswer& answer, const lease::UseQuestion& question,
               const UserNames& names) {
  Usage usage;
  usage.simulated = question.simulated;
  usage.since = to_rfc3339(WallTime(question.since));
  usage.by = boost::describe::enum_to_string(question.by, "");
  usage.rows_left_out = answer.left_out;
  for (const lease::UseSum& sum : answer.sums) {
    usage.rows.push_back(row_of(sum, names, question.by));
  }
  usage.unleased = row_of(answer.unleased, {}, lease::UseBy::gpu);
  return usage;
}

std::string csv_of(const Usage& usage) {
  std::string out;
  for (const UsageRow& row : usage.rows) put_row(out, row);
  put_row(out, usage.unleased);
  return out;
}

}  // namespace gpuyard::protocol
