#include "daemon/alert_config.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "core/andon/rule_reader.h"

namespace gpuyard::daemon {
namespace {

constexpr std::size_t kMaxAlertFileBytes = std::size_t{256} * 1024;
constexpr std::string_view kCommandSinkPrefix = "command:";

bool has_sink(const std::vector<notify::SinkConfig>& sinks, const std::string& name) {
  return std::ranges::find(sinks, name, &notify::SinkConfig::name) != sinks.end();
}

void add_log_sink(std::vector<notify::SinkConfig>& sinks) {
  if (has_sink(sinks, "log")) return;
  notify::SinkConfig log;
  log.name = "log";
  log.min_level = notify::NotificationLevel::info;
  sinks.push_back(std::move(log));
}

void add_command_sinks(const andon::Rules& rules, std::vector<notify::SinkConfig>& sinks) {
  for (const andon::Rule& rule : rules) {
    if (rule.command.empty() || !rule.enabled) continue;
    notify::SinkConfig command;
    command.name = sink_of_command(rule.name);
    command.kind = notify::SinkKind::command;
    command.argv = rule.command;
    sinks.push_back(std::move(command));
  }
}

// Returns what is wrong between a rule, the sinks and the rest of the configuration.
std::string config_rule_error(const andon::Rule& rule, const AlertConfig& alerts,
                              const config::Config& config) {
  if (rule.cap_w && rule.enabled && !config.control.enabled) {
    return "cap_w changes the power limit, but control.enabled is false; set it to true in the "
           "configuration, or remove cap_w";
  }
  for (const std::string& sink : rule.sinks) {
    if (has_sink(alerts.sinks, sink)) continue;
    std::vector<std::string_view> known;
    for (const auto& one : alerts.sinks) known.push_back(one.name);
    return unknown_word("sink", sink, known,
                        fmt::format("; known sinks: {}", fmt::join(known, " ")));
  }
  return {};
}

}  // namespace

std::string sink_of_command(const std::string& rule) {
  return std::string(kCommandSinkPrefix) + rule;
}

bool is_sink_of_command(const std::string& sink) {
  return sink.starts_with(kCommandSinkPrefix);
}

Result<AlertConfig> read_alert_config(const config::Config& config) {
  AlertConfig alerts{config.alerts.file, {}, andon::built_in_rules(), {}};
  if (!alerts.file.empty()) {
    // The file's rules and sinks run commands. Nobody else may write to the file of root's daemon.
    if (auto trusted = check_trusted_by_root(alerts.file); !trusted) {
      return std::move(trusted).error().in("alerts.file");
    }
    auto text = read_file(alerts.file, kMaxAlertFileBytes);
    if (!text) return Error{Errc::invalid, "alerts.file: " + text.error().text()};
    alerts.text = *text;
    alerts.rules = GPUYARD_TRY(apply_rules(std::move(alerts.rules), *text, alerts.file));
    alerts.sinks = GPUYARD_TRY(notify::read_sinks(*text, alerts.file));
  }
  add_log_sink(alerts.sinks);
  for (const andon::Rule& rule : alerts.rules) {
    const std::string fault = config_rule_error(rule, alerts, config);
    if (fault.empty()) continue;
    return Error{Errc::invalid, fmt::format("{}: rule {}: {}", alerts.file, rule.name, fault)};
  }
  add_command_sinks(alerts.rules, alerts.sinks);
  if (alerts.sinks.size() > notify::kMaxSinks) {
    return Error{
        Errc::invalid,
        fmt::format("{}: {} sinks, counting the log and the commands of rules; the maximum is {}",
                    alerts.file, alerts.sinks.size(), notify::kMaxSinks)};
  }
  return alerts;
}

}  // namespace gpuyard::daemon
