// The configuration in force as JSON, from the table of its keys.
#pragma once

#include <string>

#include <boost/json/fwd.hpp>

#include "daemon/config/config.h"

namespace gpuyard::cli {

// {"server": {"listen": [...]}, ...}, each key in its section.
std::string config_as_json(const config::Config&);
boost::json::object config_schema();

}  // namespace gpuyard::cli
