#include "base/json_schema.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>

#include <boost/json.hpp>

namespace gpuyard::json {
namespace {

boost::json::object schema_of_optional(const Shape& inner, Use use) {
  auto made = schema(inner, use);
  made.erase("title");  // with null it is another schema than the one of that name
  if (auto* type = made.if_contains("type")) *type = boost::json::array{*type, "null"};
  if (auto* names = made.if_contains("enum")) names->as_array().emplace_back(nullptr);
  return made;
}

// Without a fraction, as an integer's has to be.
boost::json::value bound(double value) {
  return value == std::trunc(value) ? boost::json::value(static_cast<std::int64_t>(value))
                                    : boost::json::value(value);
}

boost::json::object schema_of_record(const Shape& shape, Use use) {
  boost::json::object properties;
  boost::json::array required;
  for (const Field& field : shape.fields) {
    auto made = schema(*field.shape, use);
    const About& about = field.about;
    if (!about.description.empty()) made["description"] = about.description;
    if (std::isfinite(about.least)) made["minimum"] = bound(about.least);
    if (std::isfinite(about.most)) made["maximum"] = bound(about.most);
    properties[field.name] = std::move(made);
    if (use == Use::answer || field.shape->kind != Kind::optional) {
      required.emplace_back(field.name);
    }
  }
  boost::json::object record{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  if (!shape.title.empty()) record["title"] = shape.title;
  return record;
}

}  // namespace

boost::json::object schema(const Shape& shape, Use use) {
  switch (shape.kind) {
    case Kind::boolean:
      return {{"type", "boolean"}};
    case Kind::int8:
    case Kind::int16:
    case Kind::int32:
    case Kind::int64:
      return {{"type", "integer"}};
    case Kind::uint8:
    case Kind::uint16:
    case Kind::uint32:
    case Kind::uint64:
      return {{"type", "integer"}, {"minimum", 0}};
    case Kind::number:
      return {{"type", "number"}};
    case Kind::text:
      return {{"type", "string"}};
    case Kind::word: {
      boost::json::array words;
      for (const Word& word : shape.words) words.emplace_back(word.text);
      return {{"type", "string"}, {"enum", std::move(words)}};
    }
    case Kind::optional:
      return schema_of_optional(*shape.inner, use);
    case Kind::list:
      return {{"type", "array"}, {"items", schema(*shape.inner, use)}};
    case Kind::map:
      return {{"type", "object"}, {"additionalProperties", schema(*shape.inner, use)}};
    case Kind::record:
      return schema_of_record(shape, use);
    case Kind::own:
      break;
  }
  if (shape.describe == nullptr) throw std::logic_error("a type without a schema is described");
  boost::json::object own;
  shape.describe(own);
  return own;
}

}  // namespace gpuyard::json
