#include "base/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/text.h"

namespace gpuyard::json {
namespace {

void put_escape(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4U];
      out += kHex[c & 0xFU];
  }
}

// True for a byte that a JSON string has as it is.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
}

template <class Number>
void put_number(std::string& out, Number value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void put_integer(std::string& out, const Shape& shape, std::int64_t value) {
  shape.is_signed ? put_number(out, value) : put_number(out, static_cast<std::uint64_t>(value));
}

void put_word(std::string& out, const Shape& shape, std::int64_t value) {
  const auto word = std::ranges::find(shape.words, value, &Word::value);
  put_string(out, word != shape.words.end() ? word->text : "unknown");
}

void put_record(std::string& out, std::span<const Field> fields, const void* from) {
  char separator = '{';
  for (const Field& field : fields) {
    out += separator;
    separator = ',';
    out += '"';
    out += field.name;
    out += "\":";
    // Only finds the field; nothing is written through the pointer.
    put(out, *field.shape, field.member_in(const_cast<void*>(from)));
  }
  if (separator == '{') out += '{';
  out += '}';
}

boost::json::object schema_of_optional(const Shape& inner, SchemaUse use) {
  auto made = schema(inner, use);
  made.erase("title");  // with null added, it is not the schema of that name any more
  if (auto* type = made.if_contains("type")) *type = boost::json::array{*type, "null"};
  if (auto* names = made.if_contains("enum")) names->as_array().emplace_back(nullptr);
  return made;
}

// Writes a whole number without a fraction, as an integer's bound must be.
boost::json::value bound(double value) {
  return value == std::trunc(value) ? boost::json::value(static_cast<std::int64_t>(value))
                                    : boost::json::value(value);
}

// Adds the bounds to the schema of a value. JSON Schema counts a text's characters and this program
// its bytes, which are never fewer.
void put_bounds(boost::json::object& made, const Shape& shape, double min, double max) {
  const Kind kind = shape.kind == Kind::optional ? shape.inner->kind : shape.kind;
  const std::string_view of = kind == Kind::text ? "Length" : kind == Kind::list ? "Items" : "imum";
  if (std::isfinite(min) && (min > 0 || of == "imum")) made[fmt::format("min{}", of)] = bound(min);
  if (std::isfinite(max)) made[fmt::format("max{}", of)] = bound(max);
}

boost::json::object schema_of_record(const Shape& shape, SchemaUse use) {
  boost::json::object properties;
  boost::json::array required;
  for (const Field& field : shape.fields) {
    auto made = schema(*field.shape, use);
    const About& about = field.about;
    if (!about.description.empty()) made["description"] = about.description;
    put_bounds(made, *field.shape, about.least, about.most);
    if (auto* each = made.if_contains("items"); each != nullptr && each->is_object()) {
      const Shape& list = field.shape->kind == Kind::optional ? *field.shape->inner : *field.shape;
      put_bounds(each->as_object(), *list.inner, about.each_least, about.each_most);
    }
    properties[field.name] = std::move(made);
    if (use == SchemaUse::response || field.shape->kind != Kind::optional) {
      required.emplace_back(field.name);
    }
  }
  boost::json::object record{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  if (!shape.title.empty()) record["title"] = shape.title;
  return record;
}

}  // namespace

void put_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto plain = std::ranges::find_if_not(text, &is_plain) - text.begin();
    out += text.substr(0, static_cast<std::size_t>(plain));
    text.remove_prefix(static_cast<std::size_t>(plain));
    if (text.empty()) break;
    if (const auto c = static_cast<unsigned char>(text.front()); c < 0x80) {
      put_escape(out, c);
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length = utf8_sequence_length(text);
    out += length > 0 ? text.substr(0, length) : kReplacementCharacter;
    text.remove_prefix(length > 0 ? length : 1);
  }
  out += '"';
}

void put_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  put_number(out, value);
}

void put(std::string& out, const Shape& shape, const void* from) {
  switch (shape.kind) {
    case Kind::boolean:
      out += *static_cast<const bool*>(from) ? "true" : "false";
      return;
    case Kind::integer:
      return put_integer(out, shape, shape.get_integer(from));
    case Kind::number:
      return put_double(out, *static_cast<const double*>(from));
    case Kind::text:
      return put_string(out, *static_cast<const std::string*>(from));
    case Kind::seconds:
      return put_double(out, to_seconds(*static_cast<const Duration*>(from)));
    case Kind::time:
      return put_string(out, to_rfc3339(*static_cast<const WallTime*>(from)));
    case Kind::record:
      return put_record(out, shape.fields, from);
    case Kind::word:
      return put_word(out, shape, shape.get_integer(from));
    case Kind::optional:
      if (const void* value = shape.get_value(from)) return put(out, *shape.inner, value);
      out += "null";
      return;
    case Kind::list:
    case Kind::map:
    case Kind::own:
      if (shape.put == nullptr) throw std::logic_error("this type is read-only");
      return shape.put(out, from);
  }
}

boost::json::object schema(const Shape& shape, SchemaUse use) {
  switch (shape.kind) {
    case Kind::boolean:
      return {{"type", "boolean"}};
    case Kind::integer:
      if (shape.is_signed) return {{"type", "integer"}};
      return {{"type", "integer"}, {"minimum", 0}};
    case Kind::number:
    case Kind::seconds:
      return {{"type", "number"}};
    case Kind::text:
    case Kind::time:
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
  if (shape.describe == nullptr) throw std::logic_error("this type has no schema");
  boost::json::object own;
  shape.describe(own);
  return own;
}

}  // namespace gpuyard::json
