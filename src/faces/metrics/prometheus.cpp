#include "faces/metrics/prometheus.h"

#include <algorithm>
#include <array>
#include <optional>

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

// No series where no GPU can be suspended.
void put_asleep(MetricsWriter& text, const Snapshot& snapshot) {
  const auto can_sleep = [](const DeviceState& device) {
    return device.runtime_suspend.has_value();
  };
  if (std::ranges::none_of(snapshot.devices, can_sleep)) return;
  text.family("gpu_asleep", "gauge", "1 while the kernel has this idle GPU suspended.");
  for (const DeviceState& device : snapshot.devices) {
    if (!can_sleep(device)) continue;
    text.series("gpu_asleep", label_of(device.info), asleep_since(device) ? 1 : 0);
  }
}

void put_info(MetricsWriter& text, const Snapshot& snapshot) {
  if (snapshot.devices.empty()) return;
  text.family("gpu_info", "gauge", "Identity of a GPU; always 1. Join it on `device`.");
  for (const DeviceState& device : snapshot.devices) {
    if (device.info.uuid.empty()) continue;  // never opened: its identity is unknown
    text.begin("gpu_info");
    text.label("device", label_of(device.info));
    text.label("uuid", device.info.uuid);
    text.label("pci_address", device.info.pci_address);
    text.label("name", device.info.name);
    text.end(1);
  }
  text.family("gpu_responsive", "gauge", "1 while the driver responds for this GPU in time.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_responsive", label_of(device.info),
                device.condition == DeviceCondition::responsive ? 1 : 0);
  }
  put_asleep(text, snapshot);
  text.family("gpu_lost", "gauge",
              "1 while the driver reports this GPU as lost, or does not list it.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_lost", label_of(device.info), is_lost(device) ? 1 : 0);
  }
  text.family("gpu_query_errors_total", "counter", "Readings that the driver failed to return.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_query_errors_total", label_of(device.info),
                static_cast<double>(device.query_errors));
  }
}

// A GPU that does not answer is included: its memory errors are still known.
void put_health(MetricsWriter& text, const Snapshot& snapshot) {
  const auto known = [](const DeviceState& device) { return device.health.verdict.has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  text.family("gpu_health", "gauge",
              "0 healthy, 1 degraded, 2 unhealthy; no series while unknown.");
  for (const DeviceState& device : snapshot.devices) {
    if (!known(device)) continue;
    text.series("gpu_health", label_of(device.info), static_cast<double>(*device.health.verdict));
  }
}

void put_bottlenecks(MetricsWriter& text, const Snapshot& snapshot) {
  const auto known = [](const DeviceState& device) { return device.bottleneck.has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  text.family("gpu_bottleneck", "gauge",
              "1 for the current bottleneck of this GPU; cause \"none\" if there is none.");
  for (const DeviceState& device : snapshot.devices) {
    if (!known(device)) continue;
    text.begin("gpu_bottleneck");
    text.label("device", label_of(device.info));
    text.label("cause", enum_name(device.bottleneck->cause));
    text.end(1);
  }
}

void put_xid_labels(MetricsWriter& text, std::string_view name, const DeviceState& device,
                    const XidCount& one) {
  text.begin(name);
  text.label("device", label_of(device.info));
  text.label("uuid", device.info.uuid);
  text.label("xid", one.xid ? std::to_string(*one.xid) : "other");
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
        put_xid_labels(text, name, device, one);
        text.end(value_of(one));
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
  text.begin("build_info");
  text.label("version", process.version);
  text.end(1);
  text.family("driver_up", "gauge", "1 while the driver is initialised.");
  text.number("driver_up", snapshot.driver.initialised ? 1 : 0);
  text.family("simulated", "gauge", "1 if the GPUs are simulated.");
  text.number("simulated", snapshot.driver.info.simulated ? 1 : 0);
  if (!snapshot.driver.initialised) return;
  const DriverInfo& driver = snapshot.driver.info;
  text.family("driver_info", "gauge", "Versions of driver, CUDA and NVML; always 1.");
  text.begin("driver_info");
  text.label("driver_version", driver.driver_version.value_or(""));
  text.label("cuda_driver_version", driver.cuda_driver_version.value_or(""));
  text.label("nvml_version", driver.nvml_version.value_or(""));
  text.end(1);
}

void put_leases(MetricsWriter& text, const LeaseMetrics& leases) {
  if (!leases.gpus.empty()) {
    text.family("gpu_leased", "gauge", "1 while the GPU is leased or draining.");
  }
  for (const auto& [label, leased] : leases.gpus) {
    text.series("gpu_leased", label, leased ? 1 : 0);
  }
  text.family("leases_held", "gauge", "Leases that have GPUs, including draining ones.");
  text.number("leases_held", static_cast<double>(leases.held));
  text.family("lease_waiting", "gauge", "Claims waiting for GPUs.");
  text.number("lease_waiting", static_cast<double>(leases.waiting));
  text.family("lease_grants_total", "counter", "Total leases granted on this machine.");
  text.number("lease_grants_total", static_cast<double>(leases.grants));
}

void put_events(MetricsWriter& text, const EventMetrics& events) {
  text.family("events_dropped_total", "counter",
              "GPU events dropped because too many came at once, by source: the driver, the kernel "
              "log, or events that no rule counted.");
  const auto dropped = [&](std::string_view where, std::uint64_t count) {
    text.begin("events_dropped_total");
    text.label("source", where);
    text.end(static_cast<double>(count));
  };
  dropped("driver", events.by_source.driver);
  dropped("kernel_log", events.by_source.kernel_log);
  dropped("rules", events.by_rules);
}

void put_tls(MetricsWriter& text, const TlsMetrics& tls) {
  if (tls.expires_at) {
    text.family("tls_certificate_expiry_timestamp_seconds", "gauge",
                "Expiry of the certificate in use, in seconds since 1970.");
    text.number("tls_certificate_expiry_timestamp_seconds", static_cast<double>(*tls.expires_at));
  }
  text.family("tls_certificate_refused", "gauge", "1 while the certificate files cannot be used.");
  text.number("tls_certificate_refused", tls.reload_error.empty() ? 0 : 1);
  text.family("tls_certificate_reload_failures_total", "counter",
              "Failed loads of the certificate files; a certificate in use stays in use.");
  text.number("tls_certificate_reload_failures_total", static_cast<double>(tls.reload_failures));
  text.family("tls_handshakes_total", "counter", "TLS handshakes, by result.");
  const auto put_result = [&](std::string_view result, std::uint64_t count) {
    text.begin("tls_handshakes_total");
    text.label("result", result);
    text.end(static_cast<double>(count));
  };
  put_result("done", tls.handshakes);
  put_result("failed", tls.failed_handshakes);
  put_result("turned_away", tls.refused_handshakes);
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
    text.begin(row.prometheus);
    text.label("device", device);
    text.label("reason", word.text);
    text.end((flags & word.value) != 0 ? 1 : 0);
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
  const auto known = [&](const DeviceState& device) { return number_of(device, row).has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  const UnitInfo& unit = unit_info(row.unit);
  const std::string help =
      unit.dcgm.empty() ? std::string(row.help) : fmt::format("{} In {}.", row.help, unit.dcgm);
  text.family(row.dcgm, row.kind == MetricKind::counter ? "counter" : "gauge", help);
  for (const DeviceState& device : snapshot.devices) {
    const auto number = number_of(device, row);
    if (!number) continue;
    text.begin(row.dcgm);
    put_labels(text, snapshot, device, hostname);
    text.end(as_double(row, *number) / static_cast<double>(unit.dcgm_divisor));
  }
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
  constexpr std::string_view kName = "DCGM_FI_DEV_XID_ERRORS";
  const auto known = [](const DeviceState& device) { return device.xid_errors.has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  text.family(kName, "gauge", "Last Xid since the daemon started; 0 if none.");
  for (const DeviceState& device : snapshot.devices) {
    if (!known(device)) continue;
    text.begin(kName);
    put_labels(text, snapshot, device, hostname);
    text.end(last_xid(*device.xid_errors));
  }
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
  put_health(text, snapshot);
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
