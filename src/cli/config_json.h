// The configuration in force as JSON, from the table of its keys.
#pragma once

#include <boost/json.hpp>

#include "config/config.h"

namespace gpuyard::cli {

// {"server": {"listen": [...]}, ...}, each key in its section.
boost::json::object config_as_json(const config::Config&);
boost::json::object config_schema();

}  // namespace gpuyard::cli
