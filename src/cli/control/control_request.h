// From what the user said to what the daemon is asked: the one place where the verbs that change
// GPUs differ.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/source.h"
#include "cli/verbs.h"
#include "device/setting.h"
#include "protocol/control.h"

namespace gpuyard::cli {

// `ask` makes it, or asks only what would happen.
struct ControlRequest {
  std::string what;  // "power limit", "reset"
  std::function<Result<protocol::Changes>(const http::Endpoint&, bool dry_run)> ask;
};

// None: nothing is to be changed. Errc::invalid, with what would be right.
Result<std::vector<ControlRequest>> requests_of(const ControlVerb&);

// What a verb of this subject shows and changes.
std::vector<SettingKind> settings_of(ControlVerb::Subject);

// "power", "compute-mode"
std::string_view name_of(ControlVerb::Subject);

}  // namespace gpuyard::cli
