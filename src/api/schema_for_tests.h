// Whether a JSON value is what a JSON Schema says, as far as our schemas go.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <boost/json.hpp>

namespace gpuyard::api {

class SchemaCheck {
 public:
  // `document` is what "$ref" refers into; it outlives this.
  explicit SchemaCheck(const boost::json::value& document) : document_(document) {}

  // What is wrong, each with its path; nothing when the value fits.
  std::vector<std::string> problems(const boost::json::value& value,
                                    const boost::json::value& schema) {
    found_.clear();
    check(value, schema, "");
    return found_;
  }

 private:
  static bool is(const boost::json::value& value, std::string_view type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_int64() || value.is_uint64();
    return type == "number" && value.is_number();
  }

  void check(const boost::json::value& value, const boost::json::value& any,
             const std::string& at) {
    const auto& schema = any.as_object();
    if (const auto* ref = schema.if_contains("$ref")) {
      const std::string_view pointer = ref->as_string();
      return check(value, document_.at_pointer(pointer.substr(1)), at);
    }
    if (const auto* type = schema.if_contains("type")) check_type(value, *type, at);
    if (const auto* names = schema.if_contains("enum")) {
      const auto& all = names->as_array();
      if (std::find(all.begin(), all.end(), value) == all.end())
        found_.push_back(at + ": not listed");
    }
    if (value.is_object()) check_object(value.as_object(), schema, at);
    if (value.is_array()) {
      for (const auto& element : value.as_array()) check(element, schema.at("items"), at + "/-");
    }
  }

  void check_type(const boost::json::value& value, const boost::json::value& type,
                  const std::string& at) {
    bool fits = type.is_string() && is(value, type.as_string());
    if (const auto* types = type.if_array()) {
      for (const auto& one : *types) fits = fits || is(value, one.as_string());
    }
    if (!fits) found_.push_back(at + ": is not of type " + boost::json::serialize(type));
  }

  void check_object(const boost::json::object& value, const boost::json::object& schema,
                    const std::string& at) {
    if (const auto* required = schema.if_contains("required")) {
      for (const auto& name : required->as_array()) {
        if (!value.contains(name.as_string()))
          found_.push_back(at + "/" + std::string(name.as_string()) + ": required");
      }
    }
    for (const auto& member : value) {
      const std::string path = at + "/" + std::string(member.key());
      const auto* properties = schema.if_contains("properties");
      const auto* known = properties ? properties->as_object().if_contains(member.key()) : nullptr;
      if (known == nullptr) known = schema.if_contains("additionalProperties");
      if (known == nullptr) {
        found_.push_back(path + ": not in the schema");
      } else {
        check(member.value(), *known, path);
      }
    }
  }

  const boost::json::value& document_;
  std::vector<std::string> found_;
};

}  // namespace gpuyard::api
