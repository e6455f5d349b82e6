// The keys of [lease] that need more than their type to be right. Only keys.cpp looks here.
#pragma once

#include "base/result.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {

Value get_fair(const Config&);
Result<void> set_fair(Config&, const Value&);
Result<void> set_most_gpus_per_user(Config&, const Value&);

}  // namespace gpuyard::config
