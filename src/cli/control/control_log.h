// What was asked of the GPUs as tables, the newest last.
#pragma once

#include <string>

#include "cli/screen/screen.h"
#include "protocol/control.h"

namespace gpuyard::cli {

std::string audit_table(const protocol::Audit&, const Screen&);
std::string operations_table(const protocol::Operations&, const Screen&);

}  // namespace gpuyard::cli
