#include "faces/metrics/daemon_metrics.h"

#include <array>
#include <map>
#include <set>
#include <tuple>

namespace gpuyard::metrics {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"info", "warning", "error", "critical"};
constexpr std::array<std::string_view, 3> kStates = {"firing", "acknowledged", "silenced"};

std::string_view state_of(const FiringAlert& alert) {
  if (alert.silenced) return "silenced";
  return alert.acknowledged ? "acknowledged" : "firing";
}

// Prometheus refuses the whole scrape if one series is in it twice.
std::vector<const FiringAlert*> unique_alerts(const std::vector<FiringAlert>& firing) {
  std::set<std::tuple<std::string_view, std::optional<std::string>>> seen;
  std::vector<const FiringAlert*> once;
  for (const FiringAlert& alert : firing) {
    if (seen.emplace(alert.rule, alert.device).second) once.push_back(&alert);
  }
  return once;
}

void begin(MetricsWriter& text, std::string_view name, const FiringAlert& alert) {
  text.begin(name);
  text.label("rule", alert.rule);
  if (alert.device) text.label("device", *alert.device);
}

void put_firing(MetricsWriter& text, const std::vector<const FiringAlert*>& alerts) {
  if (alerts.empty()) return;
  text.family("alert_firing", "gauge",
              "1 while an alert fires, including acknowledged and silenced ones; without `device`: "
              "an alert of the node.");
  for (const FiringAlert* alert : alerts) {
    begin(text, "alert_firing", *alert);
    text.label("level", alert->level);
    text.end(1);
  }
  text.family("alert_severity", "gauge", "Severity of a firing alert, 0 to 100.");
  for (const FiringAlert* alert : alerts) {
    begin(text, "alert_severity", *alert);
    text.end(alert->severity);
  }
}

void put_counts(MetricsWriter& text, const std::vector<const FiringAlert*>& alerts) {
  std::map<std::tuple<std::string_view, std::string_view>, int> counts;
  for (const FiringAlert* alert : alerts) ++counts[{alert->level, state_of(*alert)}];
  text.family("alerts", "gauge",
              "Number of firing alerts: acknowledged, silenced, or neither (firing).");
  for (const std::string_view level : kLevels) {
    for (const std::string_view state : kStates) {
      text.sample("alerts", {{"level", level}, {"state", state}}, counts[{level, state}]);
    }
  }
}

template <class Value>
void put_sink_family(MetricsWriter& text, const std::vector<SinkMetrics>& sinks,
                     std::string_view name, std::string_view type, std::string_view help,
                     Value SinkMetrics::* value) {
  text.family(name, type, help);
  for (const SinkMetrics& sink : sinks) {
    text.sample(name, {{"sink", sink.name}, {"kind", sink.kind}}, static_cast<double>(sink.*value));
  }
}

void put_sinks(MetricsWriter& text, const std::vector<SinkMetrics>& sinks) {
  if (sinks.empty()) return;
  put_sink_family(text, sinks, "sink_queued", "gauge", "Messages waiting for delivery.",
                  &SinkMetrics::queued);
  put_sink_family(text, sinks, "sink_delivered_total", "counter",
                  "Messages delivered since the daemon started.", &SinkMetrics::delivered);
  put_sink_family(text, sinks, "sink_retries_total", "counter",
                  "Delivery retries since the daemon started.", &SinkMetrics::retries);
  put_sink_family(text, sinks, "sink_dead_letters_total", "counter",
                  "Messages dropped since the daemon started.", &SinkMetrics::dead);
}

}  // namespace

void put_alerts(MetricsWriter& text, const AlertMetrics& figures) {
  const std::vector<const FiringAlert*> alerts = unique_alerts(figures.firing);
  text.single("alert_rules", "gauge", "Number of alert rules.", static_cast<double>(figures.rules));
  text.single("alerts_pending", "gauge",
              "Rules whose condition is met but not yet for long enough.",
              static_cast<double>(figures.pending));
  put_counts(text, alerts);
  put_firing(text, alerts);
  if (figures.evaluation_time != nullptr) {
    text.histogram("alert_tick_seconds", "Time to evaluate all rules once.",
                   *figures.evaluation_time);
  }
  put_sinks(text, figures.sinks);
}

}  // namespace gpuyard::metrics
