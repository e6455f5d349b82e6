// The API's description, OpenAPI 3.1, derived from the route table.
#include <boost/json.hpp>

#include "api/handlers.h"

namespace gpuyard::api {
namespace {

namespace bj = boost::json;

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

bj::object operation_of(const BoundRoute& route) {
  bj::object answer{{"description", "OK"}};
  if (route.answer_schema != nullptr) {
    answer["content"] = {{"application/json", {{"schema", route.answer_schema()}}}};
  } else {
    answer["content"] = {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  }
  bj::object operation{{"tags", bj::array{route.info.tag}},
                       {"summary", route.info.summary},
                       {"responses", {{"200", std::move(answer)}}}};
  if (auto parameters = parameters_of(route); !parameters.empty()) {
    operation["parameters"] = std::move(parameters);
  }
  return operation;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string render(const Context& context) {
  bj::object paths;
  for (const BoundRoute& route : table()) {
    auto& path = paths[route.info.pattern];
    if (!path.is_object()) path = bj::object{};
    path.as_object()[lower(route.info.method)] = operation_of(route);
  }
  const bj::object document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "gpuyard"},
        {"version", context.version},
        {"description", "Watches, controls, guards and shares the GPUs of a machine."}}},
      {"paths", std::move(paths)}};
  return bj::serialize(document);
}

}  // namespace

void get_openapi(Context& context, const NoParams&, Responder<Text> respond) {
  respond(Text{"application/json", std::make_shared<const std::string>(render(context))});
}

}  // namespace gpuyard::api
