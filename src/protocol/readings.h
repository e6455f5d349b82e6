// The readings of one GPU as JSON has them: one field for each row of the catalog, in the unit its
// name says, null where the reading is missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "device/metric.h"
#include "device/reading.h"

namespace gpuyard::protocol {

struct Readings {
  std::map<Metric, std::optional<std::int64_t>> values;  // in the row's native unit

  std::optional<std::int64_t> get(Metric metric) const;
};

Readings readings_of(const Sample&);

void put_json(std::string& out, const Readings&);
void read_json(const boost::json::value& from, Readings& to, const std::string& path,
               json::Problems&);
boost::json::object schema_of(std::type_identity<Readings>);

}  // namespace gpuyard::protocol
