#include "cli/serve/config_json.h"

#include <boost/json.hpp>

#include "daemon/config/keys.h"
#include "protocol/resources.h"

namespace gpuyard::cli {
namespace {

boost::json::value as_json(const config::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return boost::json::value(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes;
  boost::json::array list;
  for (const auto& item : std::get<std::vector<std::string>>(value)) list.emplace_back(item);
  return list;
}

boost::json::object schema_of(config::Type type) {
  switch (type) {
    case config::Type::list:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case config::Type::integer:
      return {{"type", "integer"}};
    case config::Type::boolean:
      return {{"type", "boolean"}};
    case config::Type::text:
      break;
  }
  return {{"type", "string"}};
}

}  // namespace

std::string config_as_json(const config::Config& config) {
  boost::json::object out{{"schema", protocol::kSchemaVersion}};
  for (const config::Key& key : config::keys()) {
    auto& section = out[key.section];
    if (!section.is_object()) section.emplace_object();
    section.get_object()[key.name] = as_json(key.get(config));
  }
  return boost::json::serialize(out);
}

boost::json::object config_schema() {
  boost::json::object sections{{"schema", {{"type", "integer"}}}};
  boost::json::array names{"schema"};
  for (const config::Key& key : config::keys()) {
    auto& section = sections[key.section];
    if (!section.is_object()) {
      section = {{"type", "object"},
                 {"properties", boost::json::object{}},
                 {"required", boost::json::array{}}};
      names.emplace_back(key.section);
    }
    boost::json::object one = schema_of(key.type);
    one["description"] = key.help;
    section.at("properties").get_object()[key.name] = std::move(one);
    section.at("required").get_array().emplace_back(key.name);
  }
  return {{"type", "object"}, {"properties", std::move(sections)}, {"required", std::move(names)}};
}

}  // namespace gpuyard::cli
