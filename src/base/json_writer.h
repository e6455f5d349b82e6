// Writes records as JSON text, without a document tree in between. Writes integers and doubles with
// to_chars, so that no locale can change them.
#pragma once

#include <string>
#include <string_view>

#include "base/json_shape.h"

namespace gpuyard::json {

// Writes NaN and infinities as null.
void put_double(std::string& out, double value);

template <class T>
void put(std::string& out, const T& value) {
  put(out, shape_of<T>, &value);
}

template <class T>
std::string to_json(const T& value) {
  std::string out;
  put(out, shape_of<T>, &value);
  return out;
}

// JSON Schema (2020-12, as OpenAPI 3.1 uses it) from the same shapes as the JSON itself. An answer
// has every field and writes nulls out; a request may omit optional fields.
enum class SchemaUse { response, request };

// For callers that include <boost/json.hpp> themselves.
boost::json::object schema(const Shape&, SchemaUse = SchemaUse::response);

}  // namespace gpuyard::json
