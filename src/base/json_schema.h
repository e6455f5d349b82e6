// JSON Schema (2020-12, as OpenAPI 3.1 uses it) from the same shapes as the JSON itself.
#pragma once

#include "base/json_shape.h"

namespace gpuyard::json {

// An answer has every field, nulls written out; a request may leave out what is optional.
enum class Use { answer, request };

// For those who include <boost/json.hpp> themselves.
boost::json::object schema(const Shape&, Use = Use::answer);

}  // namespace gpuyard::json
