// A snapshot as Prometheus reads it. Families and help of readings come from the catalog.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "faces/metrics/daemon_metrics.h"
#include "faces/metrics/metrics_writer.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::metrics {

// The names of readings. Everything else (identity, health, Xids, leases, alerts, the daemon
// itself) has gpuyard's names in every dialect.
enum class Dialect {
  gpuyard,
  dcgm,  // dcgm-exporter 4.8's names; readings without such a name are left out
  both,
};

// How much is exported. A firing alert adds two series in both.
enum class Profile {
  full,
  // For thousands of machines: at most 20 series a GPU. Xids, throttle reasons and the loop's
  // histogram are left out; the daemon's own alerts and bottlenecks say what they mean.
  minimal,
};

// The readings of the minimal profile: one series of a GPU each.
std::span<const Metric> minimal_readings();

// The exported series.
struct Selection {
  Dialect dialect = Dialect::gpuyard;
  Profile profile = Profile::full;
};

// Accepts what Prometheus allows in a metric name: [a-zA-Z_:][a-zA-Z0-9_:]*.
Result<void> check_prefix(std::string_view prefix);

// Renders lines like "<prefix>_gpu_temperature_celsius{device="0"} 40". A missing reading has no
// series: never 0. Each series of a reading has the label `device` (the index) and where needed the
// fan, link, place or throttle reason; <prefix>_gpu_info joins the identity to it. DCGM's series
// have that exporter's labels.
std::string render(const Snapshot&, const DaemonMetrics&, std::string_view prefix,
                   Format format = Format::text, const Selection& selection = {});

// Returns the readings that are current: none for a GPU that does not answer.
std::span<const Reading> current_readings(const DeviceState&, Metric);

// Writes "gpu_temperature_celsius{device="0"}", in base units.
void put_readings(MetricsWriter&, const Snapshot&, Profile profile = Profile::full);

// Writes "DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-...",...}", with the names, labels and units of
// dcgm-exporter 4.8. `text` has no stem.
void put_dcgm_readings(MetricsWriter& text, const Snapshot&, const std::string& hostname,
                       Profile profile);

}  // namespace gpuyard::metrics
