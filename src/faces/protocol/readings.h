// The readings of one GPU as JSON: one field for each row of the catalog, in the unit that its name
// ends with, null where the reading is missing. A state is its word, flags are a list of words; a
// row with a dimension is a list by index, or an object by place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

#include "base/json_shape.h"
#include "gpu/device/catalog.h"
#include "gpu/device/reading.h"

namespace gpuyard {

// If read from JSON, a sample has no times, and "not_ready" for each null.
void put_json(std::string& out, const Sample&);
void read_json(const boost::json::value& from, Sample& to, const std::string& path,
               json::Problems&);
void schema_of(std::type_identity<Sample>, boost::json::object& out);

// A reason is its words: describe() and missing_from().
void put_json(std::string& out, const Missing&);
void read_json(const boost::json::value& from, Missing& to, const std::string& path,
               json::Problems&);
void schema_of(std::type_identity<Missing>, boost::json::object& out);

}  // namespace gpuyard

namespace gpuyard::protocol {

// Returns nothing if the reading is missing or no whole number.
std::optional<std::int64_t> number_of(const Sample&, Metric, std::uint16_t index = 0);

// Why readings are null, by the key of each.
using Reasons = std::map<std::string, Missing>;

// Returns the JSON key of one reading for the map of reasons: "fan_speed_percent/1" for one of
// several.
std::string json_key(const MetricRow&, std::uint16_t index);

// Writes and reads the rows of a GPU as an object, by their keys: a value, null, a list by index or
// an object by place. A row that is not there is left out, or null.
enum class AbsentPolicy { skip, null };
void put_rows(std::string& out, const Sample&, AbsentPolicy);
void read_rows(const boost::json::value& from, Sample& to, const std::string& path, json::Problems&,
               AbsentPolicy);

// Gives each missing reading the reason that stands under its key in `reasons`.
Sample with_reasons(const Sample&, const Reasons&);

}  // namespace gpuyard::protocol
