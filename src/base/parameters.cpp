#include "base/parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard {
namespace {

using json::Kind;
using json::Shape;

bool read_number(const std::string& text, double& to) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) return false;  // "nan"
  to = *value;
  return true;
}

template <class T>
bool read_integer(const std::string& text, const Shape& shape, void* to) {
  const auto value = parse_number<T>(text);
  return value && json::assign_integer(shape, to, *value);
}

Error parameter_error(const std::string& name, std::string_view expected, const std::string& got) {
  return {Errc::invalid,
          fmt::format("parameter {}: expected {}; got \"{}\"", name, expected, printable(got))};
}

Result<void> read_parameter(const std::string& name, const std::string& text, const Shape& shape,
                            void* to) {
  switch (shape.kind) {
    case Kind::optional:
      return read_parameter(name, text, *shape.inner, shape.add(to, {}));
    case Kind::text:
      if (text.empty()) return Error{Errc::invalid, "parameter " + name + " is empty"};
      *static_cast<std::string*>(to) = text;
      return {};
    case Kind::boolean:
      if (text != "true" && text != "false") {
        return parameter_error(name, "true or false", text);
      }
      *static_cast<bool*>(to) = text == "true";
      return {};
    case Kind::word: {
      const auto word = std::ranges::find(shape.words, text, &json::Word::text);
      if (word == shape.words.end()) {
        return parameter_error(name, json::allowed_words(shape), text);
      }
      shape.set_integer(to, word->value);
      return {};
    }
    case Kind::integer:
      if (shape.is_signed ? read_integer<std::int64_t>(text, shape, to)
                          : read_integer<std::uint64_t>(text, shape, to)) {
        return {};
      }
      return parameter_error(name, "a whole number in range", text);
    case Kind::number:
      if (read_number(text, *static_cast<double*>(to))) return {};
      return parameter_error(name, "a number", text);
    default:
      throw std::logic_error("a parameter is a text, a word, a number or a yes");
  }
}

// `text` has already been parsed as this kind.
Result<void> check_bounds(const std::string& name, const std::string& text, Kind kind,
                          const json::About& about) {
  if (kind == Kind::word || kind == Kind::boolean) return {};
  double measure = static_cast<double>(text.size());
  if (kind != Kind::text) read_number(text, measure);
  const std::string fault = json::bounds_violation(kind, measure, about.least, about.most);
  if (fault.empty()) return {};
  return Error{Errc::invalid, fmt::format("parameter {}: {}", name, fault)};
}

}  // namespace

Result<void> read_parameters(const NamedValues& given, const Shape& shape, void* to) {
  std::size_t used = 0;
  for (const json::Field& field : shape.fields) {
    bool seen = false;
    for (const auto& [name, text] : given) {
      if (name != field.name) continue;
      ++used;
      if (std::exchange(seen, true)) {
        return Error{Errc::invalid, "parameter " + name + " is repeated"};
      }
      GPUYARD_TRY(read_parameter(name, text, *field.shape, field.member_in(to)));
      const Kind kind =
          field.shape->inner != nullptr ? field.shape->inner->kind : field.shape->kind;
      GPUYARD_TRY(check_bounds(name, text, kind, field.about));
    }
    if (!seen && field.shape->kind != Kind::optional) {
      return Error{Errc::invalid, "parameter " + std::string(field.name) + " is missing"};
    }
  }
  if (used == given.size()) return {};
  for (const auto& [name, text] : given) {
    if (std::ranges::find(shape.fields, name, &json::Field::name) == shape.fields.end()) {
      return Error{Errc::invalid, "unknown parameter \"" + name + "\""};
    }
  }
  return {};
}

NamedValues named_values(const Shape& shape, const void* from) {
  NamedValues out;
  for (const json::Field& field : shape.fields) {
    // Only finds the field; nothing is written through the pointer.
    const void* value = field.member_in(const_cast<void*>(from));
    const Shape* kind = field.shape;
    if (kind->kind == Kind::optional) {
      value = kind->get_value(value);
      kind = kind->inner;
    }
    if (value == nullptr) continue;
    std::string text;
    if (kind->kind == Kind::text) {
      text = *static_cast<const std::string*>(value);
    } else {
      json::put(text, *kind, value);
      std::erase(text, '"');  // the quotes around a word
    }
    out.emplace_back(field.name, std::move(text));
  }
  return out;
}

}  // namespace gpuyard
