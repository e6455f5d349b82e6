// The settings of the GPUs as a table.
#pragma once

#include <string>
#include <vector>

#include "cli/control/control_text.h"
#include "cli/screen/screen.h"
#include "faces/protocol/control.h"
#include "gpu/device/setting.h"

namespace gpuyard::cli {

// Keeps only settings of these kinds.
void keep_only(protocol::Management&, const std::vector<SettingKind>&);

// Returns a row for each setting, and one for each further claim that waits behind the first.
Printable control_table(const protocol::Management&, const ControlReader&, const Screen&);

// Changes and refusals as tables, the newest last.
Printable audit_table(const protocol::Audit&, const Screen&);
Printable operations_table(const protocol::Operations&, const Screen&);

}  // namespace gpuyard::cli
