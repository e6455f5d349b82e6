#include "metrics/reference_for_tests.h"

#include <fmt/format.h>

#include "base/record.h"
#include "device/catalog.h"
#include "metrics/prometheus.h"

namespace gpuyard {
BOOST_DESCRIBE_ENUM(Kind, gauge, counter, text, state, flags)
}  // namespace gpuyard

namespace gpuyard::metrics {
namespace {

constexpr const char* kIntroduction = R"(# Metrics

Written from the catalog by `GPUYARD_WRITE_GOLDEN=1 faces_test`; the test compares this file with it.

One row for each thing that is measured. In JSON every field is there, `null` where there is no
value, and `missing` says why. In Prometheus a missing reading has no series, and a GPU that does
not answer has none but `gpu_info`, `gpu_responsive`, `gpu_lost`, `gpu_query_errors_total` and, if
it is known, `gpu_health`: 0 healthy, 1 degraded, 2 unhealthy; and its Xids. `gpu_lost` is 1 of a GPU
that the driver says is gone, and 0 of one that only does not answer, also if that is unhealthy.

Every series of a reading carries the label
`device`, the GPU's index, or its UUID if the driver no longer lists it and another GPU has that
index; where a row has several elements, their label is in brackets. `gpuyard_gpu_info{{device, uuid, pci_address, name}}` joins the identity to it. No series
depends on a process, a user or a label that a user chose; a GPU has {} at most.

`gpu_bottleneck{{device, cause}}` is 1 for the one cause that holds a GPU back by its last minute: lost,
stale, heat, power_brake, power_cap, narrow_link, starved, waiting, leased_idle, memory_full,
not_known or none. A GPU has one such series at a time, also if it does not answer.

Xids, the driver's own numbers for what goes wrong, are `gpu_xid_errors_total{{device, uuid, xid}}`
and `gpu_xid_last_seen_timestamp_seconds{{device, uuid, xid}}`, in JSON `xid_errors`. They are
counted from the start of the daemon, each once although the driver and the kernel's log both tell of
it. A GPU has 16 different ones, 4 of them only for Xids that stop work; further ones together are
`xid="other"`.

Leases are `gpu_leased{{device}}`, 1 while a GPU is somebody's or what ran under his lease is not
gone yet, `leases_held`, `lease_waiting` and `lease_grants_total`, which counts on when the daemon is
started anew. Whose they are is in no metric.

Alerts are `alert_firing{{rule, device, level}}` and `alert_severity{{rule, device}}` (without
`device` where an alert is the node's), two for each that fires; `alerts{{level, state}}`,
`alerts_pending`, `alert_rules` and `alert_tick_seconds` are the node's. What became of telling them
is `sink_queued`, `sink_delivered_total`, `sink_retries_total` and `sink_dead_letters_total`, each
`{{sink, kind}}`. Rules and sinks have the names of the configuration; no series has an alert's text.

`events_dropped_total{{source}}` counts the events of GPUs that were dropped because too many came at
once ([andon.md](andon.md)).

Where the daemon speaks TLS, `tls_certificate_expiry_timestamp_seconds`, `tls_certificate_refused`,
`tls_handshakes_total{{result}}` and `tls_certificate_reload_failures_total` tell of its certificate. There is no
expiry while there is no certificate that can be used.

With `[metrics] dialect` readings are told under DCGM's names and in its units, instead of ours or
beside them; that is {} more series of a GPU at most. [prometheus.md](prometheus.md) has the rest.

A value outside the plausible range, or grossly beyond the GPU's own limit, is missing: power above three
times `power_limit_max_w`, a clock above three times its own maximum, a temperature 50 degrees
above that of the shutdown, memory above its total. A mask has no range: bits without a word are `other`.

A `*` in the name of another tool stands for the element's word. Rows are read every second (fast),
every 5 seconds (slow) or every minute (rare).

| JSON | Prometheus, without the prefix | kind | read | nvidia-smi | DCGM 4.8 | plausible | meaning |
|---|---|---|---|---|---|---|---|
)";

std::string_view tier_of(const Row& row) {
  if (row.subject != Subject::device) return "once";
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

std::string series_of(const Row& row) {
  if (row.prometheus.empty()) return "";
  std::string_view label = label_of(row.dimension);
  if (row.kind == Kind::flags) label = "reason";
  return label.empty() ? code(row.prometheus) : fmt::format("{} [{}]", code(row.prometheus), label);
}

// "`DCGM_FI_DEV_FB_USED` (MiB)"
std::string dcgm_of(const Row& row) {
  const std::string_view unit = unit_info(row.unit).dcgm;
  if (row.dcgm.empty() || unit.empty()) return code(row.dcgm);
  return fmt::format("{} ({})", code(row.dcgm), unit);
}

// "0 to 10000 W"; "" where every value is possible.
std::string plausible_of(const Row& row) {
  if (row.kind == Kind::text || row.kind == Kind::flags) return "";
  const UnitInfo& unit = unit_info(row.unit);
  const std::string symbol = unit.symbol.empty() ? "" : fmt::format(" {}", unit.symbol);
  return fmt::format("{} to {}{}", row.bounds.least / unit.json_divisor,
                     row.bounds.most / unit.json_divisor, symbol);
}

std::string meaning_of(const Row& row) {
  if (row.words.empty()) return std::string(row.help);
  std::string words;
  for (const Word& word : row.words) {
    words += fmt::format("{}{}", words.empty() ? "" : ", ", code(word.text));
  }
  return fmt::format("{} Words: {}.", row.help, words);
}

}  // namespace

std::string reference() {
  std::string text =
      fmt::format(fmt::runtime(kIntroduction), most_series_of_a_gpu(), kMostDcgmSeriesOfAGpu);
  for (const Row& row : catalog()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", code(json_key(row)),
                        series_of(row), enum_name(row.kind), tier_of(row), code(row.nvidia_smi),
                        dcgm_of(row), plausible_of(row), meaning_of(row));
  }
  return text;
}

}  // namespace gpuyard::metrics
