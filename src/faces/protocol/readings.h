// The readings of one GPU as JSON: one field for each row of the catalog, in the unit that its name
// ends with, null where the reading is missing. A state is its word, flags are a list of words; a
// row with a dimension is a list by index, or an object by place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/json_shape.h"
#include "gpu/device/catalog.h"
#include "gpu/device/reading.h"

namespace gpuyard::protocol {

// Returns nothing if the reading is missing or no whole number.
std::optional<std::int64_t> number_of(const Sample&, Metric, std::uint16_t index = 0);

struct Readings {
  Sample sample;  // if read from JSON: no times, and "not_ready" for each null

  std::optional<std::int64_t> get(Metric metric, std::uint16_t index = 0) const {
    return number_of(sample, metric, index);
  }
};

Readings readings_of(const Sample&);

// Returns the JSON key of one reading for the map of reasons: "fan_speed_percent/1" for one of
// several.
std::string json_key(const MetricRow&, std::uint16_t index);

// Writes one row of a GPU: a value, null, a list by index or an object by place.
void put_row(std::string& out, const MetricRow&, std::span<const Reading>);

// Reads the rows of an object by their keys, each as put_row() writes it. A row that the object
// lacks is left out, or read as null.
enum class AbsentPolicy { skip, null };
void read_rows(const boost::json::value& from, Sample& to, const std::string& path, json::Problems&,
               AbsentPolicy);

// Gives each missing reading the reason that stands under its key, in words, in `reasons`.
Sample with_reasons(const Sample&, const std::map<std::string, std::string>& reasons);

void put_json(std::string& out, const Readings&);
void read_json(const boost::json::value& from, Readings& to, const std::string& path,
               json::Problems&);
void schema_of(std::type_identity<Readings>, boost::json::object& out);

}  // namespace gpuyard::protocol
