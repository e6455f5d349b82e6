// The keys of [control] that need more than their type to be right. Only keys.cpp looks here.
#pragma once

#include "base/result.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {

Value get_on_stop(const Config&);
Result<void> set_on_stop(Config&, const Value&);
Result<void> set_reset_command(Config&, const Value&);
Result<void> set_reset_timeout(Config&, const Value&);

}  // namespace gpuyard::config
