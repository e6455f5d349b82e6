// Converts the parameters of a request (names with texts) to records and back, by json::shape_of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_shape.h"
#include "base/result.h"
#include "base/try.h"

namespace gpuyard {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Reads strictly: an unknown, repeated, missing or malformed parameter is an error that names it.
// `to` points to a new record of this shape.
Result<void> read_parameters(const NamedValues& given, const json::Shape&, void* to);

template <Record T>
Result<T> read_parameters(const NamedValues& given) {
  T parameters{};
  GPUYARD_TRY(read_parameters(given, json::shape_of<T>, &parameters));
  return parameters;
}

// Leaves out an optional that is empty.
NamedValues named_values(const json::Shape&, const void* from);

template <Record T>
NamedValues named_values(const T& record) {
  return named_values(json::shape_of<T>, &record);
}

}  // namespace gpuyard
