// JSON Schema (2020-12, as OpenAPI 3.1 uses it) from the same member lists as the JSON itself.
#pragma once

#include <string_view>

#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/record.h"

namespace gpuyard::json {

// What the member list cannot say about a field. Specialise about<&T::field> beside the struct.
struct About {
  std::string_view description;
};
template <auto Member>
inline constexpr About about{};

// The name under which others refer to a record's schema; specialise beside the struct.
template <class T>
inline constexpr std::string_view schema_name{};

// A type that describes itself: `boost::json::object schema_of(std::type_identity<T>)`.
template <class T>
concept DescribesItself = requires { schema_of(std::type_identity<T>{}); };

// An answer has every field, nulls written out; a request may leave out what is optional.
enum class Use { answer, request };

template <class T, Use use = Use::answer>
boost::json::object schema() {
  if constexpr (DescribesItself<T>) {
    return schema_of(std::type_identity<T>{});
  } else if constexpr (is_optional<T>) {
    auto inner = schema<typename T::value_type, use>();
    inner.erase("title");  // with null it is another schema than the one of that name
    if (auto* type = inner.if_contains("type")) *type = boost::json::array{*type, "null"};
    if (auto* names = inner.if_contains("enum")) names->as_array().emplace_back(nullptr);
    return inner;
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return {{"type", "string"}};
  } else if constexpr (DescribedEnum<T>) {
    boost::json::array names;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>(
        [&](auto entry) { names.emplace_back(entry.name); });
    return {{"type", "string"}, {"enum", std::move(names)}};
  } else if constexpr (is_vector<T>) {
    return {{"type", "array"}, {"items", schema<typename T::value_type, use>()}};
  } else if constexpr (is_string_map<T>) {
    return {{"type", "object"}, {"additionalProperties", schema<typename T::mapped_type, use>()}};
  } else {
    boost::json::object properties;
    boost::json::array required;
    each_member<T>([&](auto member) {
      using Field = std::remove_cvref_t<decltype(std::declval<T>().*member.pointer)>;
      auto field = schema<Field, use>();
      constexpr About info = about<member.pointer>;
      if (!info.description.empty()) field["description"] = info.description;
      properties[member.name] = std::move(field);
      if (use == Use::answer || !is_optional<Field>) required.emplace_back(member.name);
    });
    boost::json::object record{{"type", "object"},
                               {"properties", std::move(properties)},
                               {"required", std::move(required)}};
    if (!schema_name<T>.empty()) record["title"] = schema_name<T>;
    return record;
  }
}

}  // namespace gpuyard::json
