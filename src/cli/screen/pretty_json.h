// JSON for people and for diffs: two blanks for each level, short things on one line.
#pragma once

#include <string>

#include <boost/json/fwd.hpp>

namespace gpuyard::cli {

// Ends with a newline.
std::string pretty_json(const boost::json::value&);

}  // namespace gpuyard::cli
