// Records to JSON text, without a document tree in between. Integers and doubles are written with
// to_chars, so that no locale can change them.
#pragma once

#include <string>
#include <string_view>

#include "base/json_shape.h"

namespace gpuyard::json {

// NaN and infinities become null.
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

// JSON Schema (2020-12, as OpenAPI 3.1 uses it) from the same shapes as the JSON itself.

// An answer has every field, nulls written out; a request may leave out what is optional.
enum class Use { answer, request };

// For those who include <boost/json.hpp> themselves.
boost::json::object schema(const Shape&, Use = Use::answer);

}  // namespace gpuyard::json
