#include "faces/metrics/prometheus.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/record.h"
#include "faces/metrics/daemon_metrics.h"
#include "faces/metrics/metrics_writer.h"
#include "gpu/device/catalog.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::metrics {
namespace {

constexpr std::array kMinimalReadings = {Metric::memory_total,
                                         Metric::memory_used,
                                         Metric::utilization_gpu,
                                         Metric::utilization_memory,
                                         Metric::temperature_core,
                                         Metric::temperature_memory,
                                         Metric::power_draw,
                                         Metric::power_limit,
                                         Metric::energy_total,
                                         Metric::clock_sm,
                                         Metric::ecc_uncorrected_volatile,
                                         Metric::processes_compute};

bool is_selected(const MetricRow& row, Profile profile) {
  return profile == Profile::full ||
         std::ranges::find(kMinimalReadings, row.metric) != kMinimalReadings.end();
}

// Writes a family with the value of each GPU that has one; nothing if none has.
template <class ValueOf, class PutLabels>
void put_family(MetricsWriter& text, const Snapshot& snapshot, std::string_view name,
                std::string_view type, std::string_view help, ValueOf value_of,
                PutLabels put_labels) {
  bool begun = false;
  for (const DeviceState& device : snapshot.devices) {
    const std::optional<double> value = value_of(device);
    if (!value) continue;
    if (!std::exchange(begun, true)) text.family(name, type, help);
    text.begin(name);
    put_labels(device);
    text.end(*value);
  }
}

void put_info(MetricsWriter& text, const Snapshot& snapshot) {
  if (snapshot.devices.empty()) return;
  text.family("gpu_info", "gauge", "Identity of a GPU; always 1. Join it on `device`.");
  for (const DeviceState& device : snapshot.devices) {
    const DeviceInfo& info = device.info;
    if (info.uuid.empty()) continue;  // never opened: its identity is unknown
    text.sample("gpu_info",
                {{"device", label_of(info)},
                 {"uuid", info.uuid},
                 {"pci_address", info.pci_address},
                 {"name", info.name}},
                1);
  }
}

void put_states(MetricsWriter& text, const Snapshot& snapshot) {
  const auto put = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto value_of) {
    put_family(text, snapshot, name, type, help, value_of,
               [&](const DeviceState& device) { text.label("device", label_of(device.info)); });
  };
  using Value = std::optional<double>;
  put("gpu_responsive", "gauge", "1 while the driver responds for this GPU in time.",
      [](const DeviceState& device) { return device.condition == DeviceCondition::responsive; });
  put("gpu_asleep", "gauge", "1 while the kernel has this idle GPU suspended.",
      [](const DeviceState& device) {
        return device.runtime_suspend ? Value(asleep_since(device) ? 1 : 0) : std::nullopt;
      });
  put("gpu_lost", "gauge", "1 while the driver reports this GPU as lost, or does not list it.",
      [](const DeviceState& device) { return is_lost(device); });
  put("gpu_query_errors_total", "counter", "Readings that the driver failed to return.",
      [](const DeviceState& device) { return static_cast<double>(device.query_errors); });
  // A GPU that does not answer is included: its memory errors are still known.
  put("gpu_health", "gauge", "0 healthy, 1 degraded, 2 unhealthy; no series while unknown.",
      [](const DeviceState& device) {
        const auto& verdict = device.health.verdict;
        return verdict ? Value(static_cast<double>(*verdict)) : std::nullopt;
      });
}

void put_bottlenecks(MetricsWriter& text, const Snapshot& snapshot) {
  put_family(
      text, snapshot, "gpu_bottleneck", "gauge",
      "1 for the current bottleneck of this GPU; cause \"none\" if there is none.",
      [](const DeviceState& device) {
        return device.bottleneck ? std::optional<double>(1) : std::nullopt;
      },
      [&](const DeviceState& device) {
        text.label("device", label_of(device.info));
        text.label("cause", enum_name(device.bottleneck->cause));
      });
}

// A GPU that does not answer is included: its Xids may be the reason.
void put_xids(MetricsWriter& text, const Snapshot& snapshot) {
  const auto has_any = [](const DeviceState& device) {
    return device.xid_errors && !device.xid_errors->empty();
  };
  if (!std::ranges::any_of(snapshot.devices, has_any)) return;
  const auto put_each = [&](std::string_view name, auto value_of) {
    for (const DeviceState& device : snapshot.devices) {
      if (!has_any(device)) continue;
      for (const XidCount& one : *device.xid_errors) {
        text.sample(name,
                    {{"device", label_of(device.info)},
                     {"uuid", device.info.uuid},
                     {"xid", one.xid ? std::to_string(*one.xid) : "other"}},
                    value_of(one));
      }
    }
  };
  text.family("gpu_xid_errors_total", "counter", "Driver errors by Xid, since the daemon started.");
  put_each("gpu_xid_errors_total",
           [](const XidCount& one) { return static_cast<double>(one.count); });
  text.family("gpu_xid_last_seen_timestamp_seconds", "gauge",
              "Time of the last occurrence of this Xid, in seconds since 1970.");
  put_each("gpu_xid_last_seen_timestamp_seconds", [](const XidCount& one) {
    return static_cast<double>(one.last_seen.time_since_epoch().count()) / 1000;
  });
}

void put_node(MetricsWriter& text, const Snapshot& snapshot, const DaemonMetrics& process) {
  text.family("build_info", "gauge", "Version of gpuyard; always 1.");
  text.sample("build_info", {{"version", process.version}}, 1);
  text.single("driver_up", "gauge", "1 while the driver is initialised.",
              snapshot.driver.initialised ? 1 : 0);
  text.single("simulated", "gauge", "1 if the GPUs are simulated.",
              snapshot.driver.info.simulated ? 1 : 0);
  if (!snapshot.driver.initialised) return;
  const DriverInfo& driver = snapshot.driver.info;
  text.family("driver_info", "gauge", "Versions of driver, CUDA and NVML; always 1.");
  text.sample("driver_info",
              {{"driver_version", driver.driver_version.value_or("")},
               {"cuda_driver_version", driver.cuda_driver_version.value_or("")},
               {"nvml_version", driver.nvml_version.value_or("")}},
              1);
}

void put_leases(MetricsWriter& text, const LeaseMetrics& leases) {
  if (!leases.gpus.empty()) {
    text.family("gpu_leased", "gauge", "1 while the GPU is leased or draining.");
  }
  for (const auto& [label, leased] : leases.gpus) {
    text.sample("gpu_leased", {{"device", label}}, leased ? 1 : 0);
  }
  text.single("leases_held", "gauge", "Leases that have GPUs, including draining ones.",
              static_cast<double>(leases.held));
  text.single("lease_waiting", "gauge", "Claims waiting for GPUs.",
              static_cast<double>(leases.waiting));
  text.single("lease_grants_total", "counter", "Total leases granted on this machine.",
              static_cast<double>(leases.grants));
}

// Writes a counter with a sample for each value of one label.
void put_counter(MetricsWriter& text, std::string_view name, std::string_view help,
                 std::string_view label,
                 std::initializer_list<std::pair<std::string_view, std::uint64_t>> counts) {
  text.family(name, "counter", help);
  for (const auto& [value, count] : counts) {
    text.sample(name, {{label, value}}, static_cast<double>(count));
  }
}

void put_events(MetricsWriter& text, const EventMetrics& events) {
  put_counter(text, "events_dropped_total",
              "GPU events dropped because too many came at once, by source: the driver, the kernel "
              "log, or events that no rule counted.",
              "source",
              {{"driver", events.by_source.driver},
               {"kernel_log", events.by_source.kernel_log},
               {"rules", events.by_rules}});
}

void put_tls(MetricsWriter& text, const TlsMetrics& tls) {
  if (tls.expires_at) {
    text.single("tls_certificate_expiry_timestamp_seconds", "gauge",
                "Expiry of the certificate in use, in seconds since 1970.",
                static_cast<double>(*tls.expires_at));
  }
  text.single("tls_certificate_refused", "gauge", "1 while the certificate files cannot be used.",
              tls.reload_error.empty() ? 0 : 1);
  text.single("tls_certificate_reload_failures_total", "counter",
              "Failed loads of the certificate files; a certificate in use stays in use.",
              static_cast<double>(tls.reload_failures));
  put_counter(text, "tls_handshakes_total", "TLS handshakes, by result.", "result",
              {{"done", tls.handshakes},
               {"failed", tls.failed_handshakes},
               {"turned_away", tls.refused_handshakes}});
}

bool is_name_character(char c, bool first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
  return letter || (!first && c >= '0' && c <= '9');
}

bool has_series(const Snapshot& snapshot, Metric metric) {
  return std::ranges::any_of(snapshot.devices, [&](const DeviceState& device) {
    return std::ranges::any_of(current_readings(device, metric),
                               [](const Reading& one) { return one.number() != nullptr; });
  });
}

double to_base_unit(const MetricRow& row, std::int64_t number) {
  const UnitInfo& unit = unit_info(row.unit);
  const auto native = static_cast<double>(number);
  // Dividing by 1000 is exact where multiplying by 0.001 is not.
  return unit.prometheus_factor < 1 ? native / static_cast<double>(unit.json_divisor)
                                    : native * unit.prometheus_factor;
}

// Writes one series for each flag that exists, to tell "never set" from "not known".
void put_flags(MetricsWriter& text, const MetricRow& row, std::string_view device,
               std::int64_t flags) {
  for (const MetricWord& word : row.words) {
    text.sample(row.prometheus, {{"device", device}, {"reason", word.text}},
                (flags & word.value) != 0 ? 1 : 0);
  }
}

void put_reading(MetricsWriter& text, const MetricRow& row, std::string_view device,
                 const Reading& reading) {
  const std::int64_t* number = reading.number();
  if (number == nullptr) return;
  if (row.kind == MetricKind::flags) return put_flags(text, row, device, *number);
  text.begin(row.prometheus);
  text.label("device", device);
  if (row.dimension != Dimension::none) {
    text.label(label_of(row.dimension), element_of(row.dimension, reading.index));
  }
  text.end(to_base_unit(row, *number));
}

void put_row(MetricsWriter& text, const Snapshot& snapshot, const MetricRow& row) {
  if (row.subject != MetricSubject::device || row.prometheus.empty()) return;
  if (!has_series(snapshot, row.metric)) return;
  text.family(row.prometheus, row.kind == MetricKind::counter ? "counter" : "gauge", row.help);
  for (const DeviceState& device : snapshot.devices) {
    const std::string label = label_of(device.info);
    for (const Reading& reading : current_readings(device, row.metric)) {
      put_reading(text, row, label, reading);
    }
  }
}

// "0000:3b:00.0" as NVML and DCGM write it: "00000000:3B:00.0".
std::string bus_id_of(const std::string& pci_address) {
  if (pci_address.empty()) return {};
  std::string id = "0000" + pci_address;
  for (char& c : id) {
    if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
  }
  return id;
}

void put_labels(MetricsWriter& text, const Snapshot& snapshot, const DeviceState& device,
                const std::string& hostname) {
  const DeviceInfo& info = device.info;
  const std::string index = label_of(info);
  text.label("gpu", index);
  text.label("UUID", info.uuid);
  text.label("pci_bus_id", bus_id_of(info.pci_address));
  text.label("device", "nvidia" + index);
  text.label("modelName", info.name);
  if (!hostname.empty()) text.label("Hostname", hostname);
  if (const auto& version = snapshot.driver.info.driver_version) {
    text.label("DCGM_FI_DRIVER_VERSION", *version);
  }
}

std::optional<std::int64_t> first_number(const DeviceState& device, Metric metric) {
  for (const Reading& reading : current_readings(device, metric)) {
    if (reading.index == 0 && reading.number() != nullptr) return *reading.number();
  }
  return std::nullopt;
}

// DCGM counts only the memory of processes as used; it reports the reserved part separately.
std::optional<std::int64_t> number_of(const DeviceState& device, const MetricRow& row) {
  const auto number = first_number(device, row.metric);
  if (!number || row.metric != Metric::memory_used) return number;
  const auto reserved = first_number(device, Metric::memory_reserved);
  return std::max<std::int64_t>(0, *number - reserved.value_or(0));
}

// A double holds whole numbers up to 2^53: a mask with a higher bit would lose its lowest ones, so
// it is written without its higher bits.
double as_double(const MetricRow& row, std::int64_t number) {
  constexpr std::int64_t kExactBits = (std::int64_t{1} << 53U) - 1;
  return static_cast<double>(row.kind == MetricKind::flags ? number & kExactBits : number);
}

// DCGM has a name for only one kind of row with several elements: fans. It reports the first.
bool has_dcgm_name(const MetricRow& row) {
  const bool one = row.dimension == Dimension::none || row.dimension == Dimension::fan;
  return row.subject == MetricSubject::device && row.kind != MetricKind::text && one &&
         !row.dcgm.empty();
}

void put_row(MetricsWriter& text, const Snapshot& snapshot, const MetricRow& row,
             const std::string& hostname) {
  const UnitInfo& unit = unit_info(row.unit);
  const std::string help =
      unit.dcgm.empty() ? std::string(row.help) : fmt::format("{} In {}.", row.help, unit.dcgm);
  const auto value_of = [&](const DeviceState& device) -> std::optional<double> {
    const auto number = number_of(device, row);
    if (!number) return std::nullopt;
    return as_double(row, *number) / static_cast<double>(unit.dcgm_divisor);
  };
  put_family(text, snapshot, row.dcgm, row.kind == MetricKind::counter ? "counter" : "gauge", help,
             value_of,
             [&](const DeviceState& device) { put_labels(text, snapshot, device, hostname); });
}

// Returns the number of the Xid seen last; 0 if none was seen.
double last_xid(const std::vector<XidCount>& xids) {
  const XidCount* last = nullptr;
  for (const XidCount& one : xids) {
    if (one.xid && (last == nullptr || one.last_seen > last->last_seen)) last = &one;
  }
  return last == nullptr ? 0 : static_cast<double>(*last->xid);
}

void put_xids(MetricsWriter& text, const Snapshot& snapshot, const std::string& hostname) {
  put_family(
      text, snapshot, "DCGM_FI_DEV_XID_ERRORS", "gauge",
      "Last Xid since the daemon started; 0 if none.",
      [](const DeviceState& device) {
        return device.xid_errors ? std::optional(last_xid(*device.xid_errors)) : std::nullopt;
      },
      [&](const DeviceState& device) { put_labels(text, snapshot, device, hostname); });
}

}  // namespace

Result<void> check_prefix(std::string_view prefix) {
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (is_name_character(prefix[i], i == 0)) continue;
    return Error{Errc::invalid, "\"" + std::string(prefix) +
                                    "\" cannot start a metric name: use letters, digits, '_' and "
                                    "':', not starting with a digit"};
  }
  if (prefix.empty()) return Error{Errc::invalid, "the metric prefix is empty"};
  return {};
}

std::string render(const Snapshot& snapshot, const DaemonMetrics& process, std::string_view prefix,
                   Format format, const Selection& selection) {
  const auto& [dialect, profile] = selection;
  std::string out;
  const std::string stem = std::string(prefix) + "_";
  MetricsWriter text(out, stem, format);
  put_node(text, snapshot, process);
  if (process.loop_lag != nullptr && profile == Profile::full) {
    text.histogram("loop_lag_seconds", "Delay of due work in the daemon's event loop.",
                   *process.loop_lag);
  }
  put_info(text, snapshot);
  put_states(text, snapshot);
  put_bottlenecks(text, snapshot);
  if (profile == Profile::full) put_xids(text, snapshot);
  if (process.leases != nullptr) put_leases(text, *process.leases);
  if (process.alerts != nullptr) put_alerts(text, *process.alerts);
  if (process.events != nullptr) put_events(text, *process.events);
  if (process.tls != nullptr) put_tls(text, *process.tls);
  if (dialect != Dialect::dcgm) put_readings(text, snapshot, profile);
  if (dialect != Dialect::gpuyard) {
    MetricsWriter dcgm(out, "", format);
    put_dcgm_readings(dcgm, snapshot, process.hostname, profile);
  }
  if (format == Format::openmetrics) out += "# EOF\n";
  return out;
}

// A scraper takes every sample for a current one, so a GPU that does not answer or is asleep has
// none; the JSON has its last readings with their age.
std::span<const Reading> current_readings(const DeviceState& device, Metric metric) {
  const bool current = device.condition == DeviceCondition::responsive && !asleep_since(device);
  return current ? device.sample.all(metric) : std::span<const Reading>{};
}

void put_readings(MetricsWriter& text, const Snapshot& snapshot, Profile profile) {
  for (const MetricRow& row : catalog()) {
    if (is_selected(row, profile)) put_row(text, snapshot, row);
  }
}

// Writes the rows of the catalog as dcgm-exporter 4.8 does. Names and units are columns of the
// catalog. 4.9 renamed many of the metrics, but dashboards ask for the names of 4.8.
void put_dcgm_readings(MetricsWriter& text, const Snapshot& snapshot, const std::string& hostname,
                       Profile profile) {
  for (const MetricRow& row : catalog()) {
    if (has_dcgm_name(row) && is_selected(row, profile)) put_row(text, snapshot, row, hostname);
  }
  put_xids(text, snapshot, hostname);
}

std::span<const Metric> minimal_readings() {
  return kMinimalReadings;
}

}  // namespace gpuyard::metrics
