// The API's description, OpenAPI 3.1, derived from the route table.
#include <boost/json.hpp>

#include "api/handlers.h"
#include "base/ascii.h"

namespace gpuyard::api {
namespace {

namespace bj = boost::json;

// Moves every schema that has a name among `shared` and refers to it from where it stood.
bj::value refer(bj::value schema, bj::object& shared) {
  auto* object = schema.if_object();
  if (object == nullptr) return schema;
  if (auto* properties = object->if_contains("properties")) {
    for (auto& property : properties->as_object()) {
      property.value() = refer(std::move(property.value()), shared);
    }
  }
  for (const char* inner : {"items", "additionalProperties"}) {
    if (auto* found = object->if_contains(inner)) *found = refer(std::move(*found), shared);
  }
  const auto* title = object->if_contains("title");
  if (title == nullptr) return schema;
  const std::string name(title->as_string());
  shared[name] = std::move(schema);
  return bj::object{{"$ref", "#/components/schemas/" + name}};
}

bj::array parameters_of(const BoundRoute& route) {
  bj::array parameters;
  const bj::object schema = route.parameters_schema();
  for (const auto& property : schema.at("properties").as_object()) {
    const std::string name(property.key());
    const bool in_path = route.info.pattern.find("{" + name + "}") != std::string_view::npos;
    bj::object field = property.value().as_object();
    bj::object parameter{{"name", name}, {"in", in_path ? "path" : "query"}, {"required", in_path}};
    if (const auto* description = field.if_contains("description")) {
      parameter["description"] = *description;
      field.erase("description");
    }
    parameter["schema"] = std::move(field);
    parameters.emplace_back(std::move(parameter));
  }
  return parameters;
}

bj::value answer_schema_of(const BoundRoute& route, bj::object& shared) {
  if (route.answer_schema != nullptr) return refer(route.answer_schema(), shared);
  const bool json = route.info.produces == "application/json";
  return bj::object{{"type", json ? "object" : "string"}};
}

bj::object operation_of(const BoundRoute& route, bj::object& shared) {
  bj::object content;
  content[route.info.produces] = {{"schema", answer_schema_of(route, shared)}};
  bj::object answer{{"description", "OK"}, {"content", std::move(content)}};
  bj::object operation{{"tags", bj::array{route.info.tag}},
                       {"summary", route.info.summary},
                       {"responses", {{"200", std::move(answer)}}}};
  if (auto parameters = parameters_of(route); !parameters.empty()) {
    operation["parameters"] = std::move(parameters);
  }
  return operation;
}

std::string render(const Context& context) {
  bj::object paths;
  bj::object shared;
  for (const BoundRoute& route : table()) {
    auto& path = paths[route.info.pattern];
    if (!path.is_object()) path = bj::object{};
    path.as_object()[to_lower(route.info.method)] = operation_of(route, shared);
  }
  const bj::object document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "gpuyard"},
        {"version", context.version},
        {"description", "Watches, controls, guards and shares the GPUs of a machine."}}},
      {"paths", std::move(paths)},
      {"components", {{"schemas", std::move(shared)}}}};
  return bj::serialize(document);
}

}  // namespace

void get_openapi(Context& context, const NoParams&, Responder<Text> respond) {
  respond(Text{"application/json", std::make_shared<const std::string>(render(context))});
}

}  // namespace gpuyard::api
