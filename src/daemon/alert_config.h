// The rules and sinks of alerts: the built-in ones, and those of the administrator's file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/andon/rule.h"
#include "daemon/config/config.h"
#include "io/notify/sink_config.h"

namespace gpuyard::daemon {

// The rules and sinks in force: the built-in ones, and those of the administrator's file. If any of
// it is wrong, nothing is taken.
struct AlertConfig {
  std::string file;  // "": there is no file, and all is built in
  std::string text;  // of the file
  andon::Rules rules;
  // The sinks of the file; "log" if the file has none of that name; and one for the command of each
  // rule, named by sink_of_command().
  std::vector<notify::SinkConfig> sinks;
};

// Returns a name that no sink of the file can have.
std::string sink_of_command(const std::string& rule);
bool is_sink_of_command(const std::string& sink);

// Errc::invalid: "FILE:LINE: what, and what to do".
Result<AlertConfig> read_alert_config(const config::Config&);

}  // namespace gpuyard::daemon
