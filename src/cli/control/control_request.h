// Turns what the user said into requests to the daemon. The verbs that change GPUs differ only
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/source.h"
#include "cli/verbs.h"
#include "faces/protocol/control.h"
#include "gpu/device/setting.h"

namespace gpuyard::cli {

// `submit` makes the change, or with dry_run only asks what would happen.
struct ControlRequest {
  std::string what;  // "power limit", "reset"
  std::function<Result<protocol::ChangeResults>(const http::Endpoint&, bool dry_run)> submit;
};

// Empty: nothing is to be changed. Errc::invalid says what would be right.
Result<std::vector<ControlRequest>> requests_of(const ControlVerb&);

// Returns the settings that the verb of this subject shows and changes.
std::vector<SettingKind> settings_of(ControlVerb::Subject);

// "power", "compute-mode"
std::string_view name_of(ControlVerb::Subject);

// Parsers for values that the user gives. Errors are Errc::invalid and say what would be right.
// "300", "300W", "287.5 W"; returns milliwatts.
Result<std::int64_t> parse_watts(std::string_view text);

// "1200,1500", "1400" for both; with or without "MHz".
Result<SettingValue> parse_clocks(std::string_view text);

// "on", "off"
Result<bool> parse_on_off(std::string_view text);

}  // namespace gpuyard::cli
