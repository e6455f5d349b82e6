#include "metrics/prometheus.h"

#include <algorithm>

#include "device/lost.h"
#include "metrics/alerts.h"
#include "metrics/readings.h"
#include "metrics/text.h"

namespace gpuyard::metrics {
namespace {

void put_info(Text& text, const Snapshot& snapshot) {
  if (snapshot.devices.empty()) return;
  text.family("gpu_info", "gauge", "Identity of a GPU; always 1. Join it on `device`.");
  for (const DeviceState& device : snapshot.devices) {
    if (device.info.uuid.empty()) continue;  // never opened: there is no identity to tell
    text.begin("gpu_info");
    text.label("device", std::to_string(device.info.index));
    text.label("uuid", device.info.uuid);
    text.label("pci_address", device.info.pci_address);
    text.label("name", device.info.name);
    text.end(1);
  }
  text.family("gpu_responsive", "gauge", "1 while the driver answers for this GPU in time.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_responsive", std::to_string(device.info.index),
                device.condition == DeviceCondition::responsive ? 1 : 0);
  }
  text.family("gpu_lost", "gauge", "1 while the driver says that this GPU is gone.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_lost", std::to_string(device.info.index), is_lost(device) ? 1 : 0);
  }
  text.family("gpu_query_errors_total", "counter", "Readings that the driver failed to give.");
  for (const DeviceState& device : snapshot.devices) {
    text.series("gpu_query_errors_total", std::to_string(device.info.index),
                static_cast<double>(device.query_errors));
  }
}

// Also of a GPU that does not answer: its memory errors are known all the same.
void put_health(Text& text, const Snapshot& snapshot) {
  const auto known = [](const DeviceState& device) { return device.health.verdict.has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  text.family("gpu_health", "gauge",
              "0 healthy, 1 degraded, 2 unhealthy; no series while it is not known.");
  for (const DeviceState& device : snapshot.devices) {
    if (!known(device)) continue;
    text.series("gpu_health", std::to_string(device.info.index),
                static_cast<double>(*device.health.verdict));
  }
}

void put_xid_labels(Text& text, std::string_view name, const DeviceState& device,
                    const XidCount& one) {
  text.begin(name);
  text.label("device", std::to_string(device.info.index));
  text.label("uuid", device.info.uuid);
  text.label("xid", one.xid ? std::to_string(*one.xid) : "other");
}

// Also of a GPU that does not answer: its Xids may be why.
void put_xids(Text& text, const Snapshot& snapshot) {
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
  text.family("gpu_xid_errors_total", "counter",
              "Errors by the driver's own number (Xid), since the daemon started.");
  put_each("gpu_xid_errors_total",
           [](const XidCount& one) { return static_cast<double>(one.count); });
  text.family("gpu_xid_last_seen_timestamp_seconds", "gauge",
              "When the GPU had this Xid last, in seconds since 1970.");
  put_each("gpu_xid_last_seen_timestamp_seconds", [](const XidCount& one) {
    return static_cast<double>(one.last_seen.time_since_epoch().count()) / 1000;
  });
}

void put_node(Text& text, const Snapshot& snapshot, const Process& process) {
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

void put_leases(Text& text, const LeaseFigures& leases) {
  if (!leases.gpus.empty()) {
    text.family("gpu_leased", "gauge",
                "1 while the GPU is somebody's, or what ran under his lease is not gone yet.");
  }
  for (const auto& [index, leased] : leases.gpus) {
    text.series("gpu_leased", std::to_string(index), leased ? 1 : 0);
  }
  text.family("leases_held", "gauge", "Leases that have GPUs, also those that are just given up.");
  text.number("leases_held", static_cast<double>(leases.held));
  text.family("lease_waiting", "gauge", "Claims that wait for GPUs.");
  text.number("lease_waiting", static_cast<double>(leases.waiting));
  text.family("lease_grants_total", "counter", "Leases granted on this machine, ever.");
  text.number("lease_grants_total", static_cast<double>(leases.grants));
}

bool is_name_character(char c, bool first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
  return letter || (!first && c >= '0' && c <= '9');
}

}  // namespace

Result<void> check_prefix(std::string_view prefix) {
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (is_name_character(prefix[i], i == 0)) continue;
    return Error{Errc::invalid, "\"" + std::string(prefix) +
                                    "\" cannot start a metric name: letters, digits, '_' and ':' "
                                    "only, no digit first"};
  }
  if (prefix.empty()) return Error{Errc::invalid, "the metric prefix is empty"};
  return {};
}

std::string render(const Snapshot& snapshot, const Process& process, std::string_view prefix,
                   Format format, Dialect dialect) {
  std::string out;
  const std::string stem = std::string(prefix) + "_";
  Text text(out, stem, format);
  put_node(text, snapshot, process);
  if (process.loop_lag != nullptr) {
    text.histogram("loop_lag_seconds", "How late the daemon's loop ran what was due.",
                   *process.loop_lag);
  }
  put_info(text, snapshot);
  put_health(text, snapshot);
  put_xids(text, snapshot);
  if (process.leases != nullptr) put_leases(text, *process.leases);
  if (process.alerts != nullptr) put_alerts(text, *process.alerts);
  if (dialect != Dialect::dcgm) put_readings(text, snapshot);
  if (dialect != Dialect::gpuyard) {
    Text dcgm(out, "", format);
    put_dcgm_readings(dcgm, snapshot, process.hostname);
  }
  if (format == Format::openmetrics) out += "# EOF\n";
  return out;
}

}  // namespace gpuyard::metrics
