#include "daemon/config_reloader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "core/andon/rule_reader.h"
#include "daemon/serve.h"

namespace gpuyard::daemon {
namespace {

Result<Reload::Fresh> read(const Reload::Reread& reread, const config::Config::Control& control) {
  auto config = reread();
  if (!config) return std::move(config).error();
  config::Config then = *config;
  then.control = control;
  if (auto valid = check(then); !valid) return std::move(valid).error();
  auto alerts = read_alerts(then);
  if (!alerts) return std::move(alerts).error();
  return Reload::Fresh{*std::move(config), *std::move(alerts)};
}

}  // namespace

Reload::Reload(Worker& worker, Reread reread, config::Config::Control control, Hear hear)
    : worker_(worker),
      reread_(std::move(reread)),
      control_(std::move(control)),
      hear_(std::move(hear)) {}

void Reload::begin() {
  if (!reread_) return;
  if (reading_) {
    again_ = true;
    return;
  }
  reading_ = ask_worker(
      worker_, [reread = reread_, control = control_] { return read(reread, control); },
      here_.guard([this](Result<Fresh> fresh) { on_read(std::move(fresh)); }));
  if (!reading_) hear_(Error{Errc::busy, "the disk queue is full; send SIGHUP again"});
}

void Reload::on_read(Result<Fresh> fresh) {
  reading_ = false;
  hear_(std::move(fresh));
  if (std::exchange(again_, false)) begin();
}

namespace {

constexpr std::size_t kMostBytes = std::size_t{256} * 1024;
constexpr std::string_view kOfCommand = "command:";

bool has(const std::vector<notify::SinkConfig>& sinks, const std::string& name) {
  return std::ranges::find(sinks, name, &notify::SinkConfig::name) != sinks.end();
}

void add_log(std::vector<notify::SinkConfig>& sinks) {
  if (has(sinks, "log")) return;
  notify::SinkConfig log;
  log.name = "log";
  log.min_level = notify::Level::info;
  sinks.push_back(std::move(log));
}

void add_commands(const andon::Rules& rules, std::vector<notify::SinkConfig>& sinks) {
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
std::string fault_of(const andon::Rule& rule, const AlertConfig& alerts,
                     const config::Config& config) {
  if (rule.cap_w && rule.enabled && !config.control.enabled) {
    return "cap_w changes the power limit, but control.enabled is false; set it to true in the "
           "configuration, or remove cap_w";
  }
  for (const std::string& sink : rule.sinks) {
    if (has(alerts.sinks, sink)) continue;
    std::vector<std::string_view> known;
    for (const auto& one : alerts.sinks) known.push_back(one.name);
    return unknown_word("sink", sink, known,
                        fmt::format("; known sinks: {}", fmt::join(known, " ")));
  }
  return {};
}

}  // namespace

std::string sink_of_command(const std::string& rule) {
  return std::string(kOfCommand) + rule;
}

bool is_sink_of_command(const std::string& sink) {
  return sink.starts_with(kOfCommand);
}

Result<AlertConfig> read_alerts(const config::Config& config) {
  AlertConfig alerts{config.alerts.file, {}, andon::built_in_rules(), {}};
  if (!alerts.file.empty()) {
    // The file's rules and sinks run commands. Nobody else may write to the file of root's daemon.
    if (auto trusted = check_trusted_by_root(alerts.file); !trusted) {
      return std::move(trusted).error().in("alerts.file");
    }
    auto text = read_file(alerts.file, kMostBytes);
    if (!text) return Error{Errc::invalid, "alerts.file: " + text.error().text()};
    alerts.text = *text;
    auto rules = with_rules(std::move(alerts.rules), *text, alerts.file);
    if (!rules) return std::move(rules).error();
    alerts.rules = *std::move(rules);
    auto sinks = notify::read_sinks(*text, alerts.file);
    if (!sinks) return std::move(sinks).error();
    alerts.sinks = *std::move(sinks);
  }
  add_log(alerts.sinks);
  for (const andon::Rule& rule : alerts.rules) {
    const std::string fault = fault_of(rule, alerts, config);
    if (fault.empty()) continue;
    return Error{Errc::invalid, fmt::format("{}: rule {}: {}", alerts.file, rule.name, fault)};
  }
  add_commands(alerts.rules, alerts.sinks);
  if (alerts.sinks.size() > notify::kMostSinks) {
    return Error{
        Errc::invalid,
        fmt::format("{}: {} sinks, counting the log and the commands of rules; the maximum is {}",
                    alerts.file, alerts.sinks.size(), notify::kMostSinks)};
  }
  return alerts;
}

}  // namespace gpuyard::daemon
