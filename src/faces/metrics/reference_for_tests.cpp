#include "faces/metrics/reference_for_tests.h"

#include <fmt/format.h>

#include "base/record.h"
#include "faces/metrics/fleet_for_tests.h"
#include "faces/metrics/prometheus.h"
#include "gpu/device/catalog.h"

namespace gpuyard {
BOOST_DESCRIBE_ENUM(MetricKind, gauge, counter, text, state, flags)
}  // namespace gpuyard

namespace gpuyard::metrics {
namespace {

constexpr const char* kIntroduction = R"(# Metrics

Written from the catalog by `GPUYARD_WRITE_GOLDEN=1 faces_test`; a test compares this page with it.

Each row of the table is one quantity. In JSON every field is present; without a value it is `null`,
and `missing` has the reason. In Prometheus a missing reading has no series. A GPU that does not
respond has only `gpu_info`, `gpu_responsive`, `gpu_lost`, `gpu_query_errors_total`, the series of its
Xids and, if known, `gpu_health`: 0 healthy, 1 degraded, 2 unhealthy. `gpu_lost` is 1 for a GPU that
the driver reports as lost or does not list, and 0 for one that only does not respond, even if that
one is unhealthy.

Every series of a reading has the label `device`: the index of the GPU, or its UUID if the driver no
longer lists it and another GPU has that index. If a row has several elements, their label is in
brackets. `gpuyard_gpu_info{{device, uuid, pci_address, name}}` adds the identity. No series depends on
a process, a user or a label that a user chose. A GPU has at most {} series.

`gpu_asleep{{device}}` is 1 while the kernel has an idle GPU suspended, which then has no readings. A GPU
that the kernel never suspends has no such series ([laptops.md](laptops.md)).

`gpu_bottleneck{{device, cause}}` is 1 for the bottleneck of a GPU in the last minute: lost, stale,
heat, power_brake, power_cap, narrow_link, starved, waiting, leased_idle, memory_full, not_known or
none. A GPU has one such series at a time, even if it does not respond.

Xids are the driver's numbers for errors: `gpu_xid_errors_total{{device, uuid, xid}}` and
`gpu_xid_last_seen_timestamp_seconds{{device, uuid, xid}}`, in JSON `xid_errors`. They are counted from
the start of the daemon, each once although the driver and the kernel log both report it. A GPU has up
to 16 different ones, 4 of them only for Xids that stop work; all others together are `xid="other"`.

Leases: `gpu_leased{{device}}` is 1 while a GPU is leased, or while processes of an ended lease still
run on it. `leases_held` and `lease_waiting` count leases and claims; `lease_grants_total` continues
when the daemon restarts. No metric has the user of a lease.

Alerts: each firing alert has two series, `alert_firing{{rule, device, level}}` and
`alert_severity{{rule, device}}`, without `device` if it is an alert of the node. `alerts{{level, state}}`,
`alerts_pending`, `alert_rules` and `alert_tick_seconds` are those of the node. `sink_queued`,
`sink_delivered_total`, `sink_retries_total` and `sink_dead_letters_total`, each `{{sink, kind}}`, show
the delivery of notifications. Rules and sinks have their names in the configuration; no series has the
text of an alert.

`events_dropped_total{{source}}` counts GPU events that were dropped because too many came at once
([andon.md](andon.md)).

With TLS, `tls_certificate_expiry_timestamp_seconds`, `tls_certificate_refused`,
`tls_handshakes_total{{result}}` and `tls_certificate_reload_failures_total` describe the certificate of
the daemon. There is no expiry without a usable certificate.

`[metrics] dialect` selects DCGM's names and units, instead of gpuyard's or in addition; this adds at
most {} series per GPU. [prometheus.md](prometheus.md) has the details.

`[metrics] profile = "minimal"` leaves at most {} series per GPU: identity, state, health, bottleneck and lease,
and the readings {}.

A value outside the plausible range, or grossly beyond the GPU's own limit, is missing: power above
three times `power_limit_max_w`, a clock above three times its own maximum, a temperature 50 degrees
above that of the shutdown, memory above its total. A mask has no range: bits without a word are
`other`.

A `*` in the name of another tool stands for the element's word. Rows are read every second (fast),
every 5 seconds (slow) or every minute (rare).

| JSON | Prometheus, without the prefix | kind | read | nvidia-smi | DCGM 4.8 | plausible | meaning |
|---|---|---|---|---|---|---|---|
)";

std::string_view tier_of(const MetricRow& row) {
  if (row.subject != MetricSubject::device) return "once";
  for (const ProbeRow& probe : probes()) {
    for (const Metric filled : probe.fills) {
      if (filled != row.metric) continue;
      return probe.tier == Tier::fast ? "fast" : probe.tier == Tier::slow ? "slow" : "rare";
    }
  }
  return "";
}

std::string code(std::string_view name) {
  return name.empty() ? "" : fmt::format("`{}`", name);
}

std::string series_of(const MetricRow& row) {
  if (row.prometheus.empty()) return "";
  std::string_view label = label_of(row.dimension);
  if (row.kind == MetricKind::flags) label = "reason";
  return label.empty() ? code(row.prometheus) : fmt::format("{} [{}]", code(row.prometheus), label);
}

// "`DCGM_FI_DEV_FB_USED` (MiB)"
std::string dcgm_of(const MetricRow& row) {
  const std::string_view unit = unit_info(row.unit).dcgm;
  if (row.dcgm.empty() || unit.empty()) return code(row.dcgm);
  return fmt::format("{} ({})", code(row.dcgm), unit);
}

// "0 to 10000 W"; "" where every value is possible.
std::string plausible_of(const MetricRow& row) {
  if (row.kind == MetricKind::text || row.kind == MetricKind::flags) return "";
  const UnitInfo& unit = unit_info(row.unit);
  const std::string symbol = unit.symbol.empty() ? "" : fmt::format(" {}", unit.symbol);
  return fmt::format("{} to {}{}", row.bounds.least / unit.json_divisor,
                     row.bounds.most / unit.json_divisor, symbol);
}

std::string meaning_of(const MetricRow& row) {
  if (row.words.empty()) return std::string(row.help);
  std::string words;
  for (const MetricWord& word : row.words) {
    words += fmt::format("{}{}", words.empty() ? "" : ", ", code(word.text));
  }
  return fmt::format("{} Words: {}.", row.help, words);
}

}  // namespace

std::string reference() {
  std::string minimal;
  for (const Metric metric : minimal_readings()) {
    minimal += fmt::format("{}{}", minimal.empty() ? "" : ", ", code(row_of(metric).prometheus));
  }
  std::string text = fmt::format(fmt::runtime(kIntroduction), max_series_per_gpu(),
                                 kMaxDcgmSeriesPerGpu, kMaxMinimalSeriesPerGpu, minimal);
  for (const MetricRow& row : catalog()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", code(json_key(row)),
                        series_of(row), enum_name(row.kind), tier_of(row), code(row.nvidia_smi),
                        dcgm_of(row), plausible_of(row), meaning_of(row));
  }
  return text;
}

}  // namespace gpuyard::metrics
