// Rules and sinks in force: the built-in ones, and what the administrator's file says. All of it is
// right, or nothing is taken.
#pragma once

#include <string>
#include <vector>

#include "andon/rule.h"
#include "base/result.h"
#include "daemon/config/config.h"
#include "notify/sink_config.h"

namespace gpuyard::daemon {

struct AlertsFile {
  std::string file;  // "": there is none, and all is built in
  andon::Rules rules;
  // The file's; "log" if it has none of that name; and one for each command of a rule, by
  // sink_of_command().
  std::vector<notify::SinkConfig> sinks;
};

// No sink of the file can be called so.
std::string sink_of_command(const std::string& rule);
bool is_sink_of_command(const std::string& sink);

// Errc::invalid: "FILE:LINE: what, and what to do".
Result<AlertsFile> read_alerts(const config::Config&);

}  // namespace gpuyard::daemon
