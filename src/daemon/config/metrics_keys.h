// The keys of [metrics] that need more than their type to be right. Only keys.cpp looks here.
#pragma once

#include "base/result.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {

Value get_dialect(const Config&);
Result<void> set_dialect_value(Config&, const Value&);

}  // namespace gpuyard::config
