// The API's description, OpenAPI 3.1, derived from the route table.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/text.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/examples.h"
#include "faces/api/responder.h"
#include "faces/api/router.h"
#include "faces/api/stored_state.h"

namespace gpuyard::api {
namespace {

namespace bj = boost::json;

// Shared by all parts of the description.
struct Parts {
  Examples examples = {};
  bj::object schemas = {};  // by their names
};

// Moves every schema that has a name to the shared ones, and leaves a reference in its place.
bj::value refer(bj::value schema, Parts& parts) {
  auto* object = schema.if_object();
  if (object == nullptr) return schema;
  if (auto* properties = object->if_contains("properties")) {
    for (auto& property : properties->as_object()) {
      property.value() = refer(std::move(property.value()), parts);
    }
  }
  for (const char* inner : {"items", "additionalProperties"}) {
    if (auto* found = object->if_contains(inner)) *found = refer(std::move(*found), parts);
  }
  const auto* title = object->if_contains("title");
  if (title == nullptr) return schema;
  const std::string name(title->as_string());
  parts.schemas[name] = std::move(schema);
  return bj::object{{"$ref", "#/components/schemas/" + name}};
}

// The pattern of a path segment: printable ASCII, except the two segments that a path resolves.
constexpr std::string_view kPathPattern = R"(^(?!\.{1,2}$)[!-.0-~]+$)";

// The pattern of a query's value: not empty, no control character.
constexpr std::string_view kQueryPattern = R"(^[^\x00-\x1f\x7f]+$)";

bj::array parameters_of(const BoundRoute& route, const Examples& examples) {
  bj::array parameters;
  const bj::object schema = json::schema(*route.parameters);
  for (const auto& property : schema.at("properties").as_object()) {
    const std::string name(property.key());
    const bool in_header = name == parameter_of_header(route.info.header_field);
    const bool in_path = route.info.pattern.find("{" + name + "}") != std::string_view::npos;
    bj::object field = property.value().as_object();
    const bool required = in_path || !field.at("type").is_array();  // a list of types includes null
    bj::object parameter{{"name", in_header ? route.info.header_field : std::string_view(name)},
                         {"in", in_path     ? "path"
                                : in_header ? "header"
                                            : "query"},
                         {"required", required}};
    const bj::value& type = field.at("type");
    const bool text = (type.is_array() ? type.as_array().front() : type) == "string";
    if (text && !field.contains("enum")) field["pattern"] = in_path ? kPathPattern : kQueryPattern;
    if (const auto* description = field.if_contains("description")) {
      parameter["description"] = *description;
      field.erase("description");
    }
    if (const auto example = examples.parameter(route.info, name); !example.empty()) {
      parameter["example"] = example;
    }
    parameter["schema"] = std::move(field);
    parameters.emplace_back(std::move(parameter));
  }
  return parameters;
}

bj::value answer_schema_of(const BoundRoute& route, Parts& parts) {
  if (route.answer != nullptr) return refer(json::schema(*route.answer), parts);
  const bool json = route.info.produces == "application/json";
  return bj::object{{"type", json ? "object" : "string"}};
}

bj::object response_of(std::string_view description, std::string_view type, bj::value schema,
                       bj::value example) {
  bj::object media{{"schema", std::move(schema)}};
  if (!example.is_null()) media["example"] = std::move(example);
  bj::object content;
  content[type] = std::move(media);
  return {{"description", description}, {"content", std::move(content)}};
}

bj::value answer_example_of(const BoundRoute& route, const Examples& examples) {
  const bj::value* record = route.answer ? examples.record(route.answer->title) : nullptr;
  if (record != nullptr) return *record;
  const std::string_view text = examples.text(route.info);
  return text.empty() ? bj::value() : bj::value(text);
}

// Returns the schema of {"error": {"code", "message", "hint"}}, or of {"detail": message}.
bj::value error_schema_of(protocol::ErrorShape shape, Parts& parts) {
  const bj::object text{{"type", "string"}};
  bj::object detail{{"title", "Detail"},
                    {"type", "object"},
                    {"properties", {{"detail", text}}},
                    {"required", bj::array{"detail"}}};
  if (shape == protocol::ErrorShape::detail) return refer(std::move(detail), parts);
  bj::object hint = text;
  hint["description"] =
      "Suggested commands, one per line; a remark follows \"  # \". The message ends with "
      "it.";
  bj::object inner{{"type", "object"},
                   {"properties", {{"code", text}, {"message", text}, {"hint", std::move(hint)}}},
                   {"required", bj::array{"code", "message"}}};
  bj::object error{{"title", "Error"},
                   {"type", "object"},
                   {"properties", {{"error", std::move(inner)}}},
                   {"required", bj::array{"error"}}};
  return refer(std::move(error), parts);
}

std::string_view description_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "A parameter or a field of the body is unknown, repeated, missing or malformed.";
    case Errc::denied:
      return "Permission denied.";
    case Errc::not_found:
      return "Not found.";
    case Errc::unavailable:
      return "Unavailable; see the message for the reason.";
    case Errc::conflict:
      return "In conflict with another user's claim or setting, or with the current state.";
    case Errc::unsupported:
      return "Not supported by this GPU, driver or platform.";
    case Errc::device_lost:
      return "The GPU is lost: it no longer responds.";
    case Errc::timed_out:
      return "Not finished before the deadline.";
    case Errc::busy:
      return "A limit is reached; try again later.";
    case Errc::internal:
      break;
  }
  return "Internal error.";
}

void put_failure(bj::object& responses, const BoundRoute& route, Errc code, Parts& parts) {
  const http::Response response = render_error(route.info, parts.examples.error(code, route.info));
  responses[std::to_string(response.status)] =
      response_of(description_of(code), response.content_type,
                  error_schema_of(route.info.errors, parts), bj::parse(*response.body));
}

std::string_view other_status_description(int status) {
  return status == protocol::kMultiStatus
             ? "Some GPUs failed; the response has the result for each GPU."
             : "Not ready; see the response for the reason.";
}

bj::object responses_of(const BoundRoute& route, Parts& parts) {
  bj::object responses;
  bj::object ok = response_of("OK", route.info.produces, answer_schema_of(route, parts),
                              answer_example_of(route, parts.examples));
  for (const std::string_view other : {route.info.csv, route.info.also_produces}) {
    if (!other.empty()) ok["content"].as_object()[other] = {{"schema", {{"type", "string"}}}};
  }
  responses[std::to_string(route.info.status)] = std::move(ok);
  if (route.info.also_answers_with != 0) {
    responses[std::to_string(route.info.also_answers_with)] =
        response_of(other_status_description(route.info.also_answers_with), route.info.produces,
                    answer_schema_of(route, parts), {});
  }
  put_failure(responses, route, Errc::invalid, parts);
  if (route.info.scope > protocol::Scope::open) put_failure(responses, route, Errc::denied, parts);
  for (const Errc code : route.info.failures) put_failure(responses, route, code, parts);
  if (needs_stored_state(route.info)) put_failure(responses, route, Errc::unavailable, parts);
  responses["default"] = response_of(
      "Refused before reaching the route (401, 405, 408, 413, 414, 421, 429, 431), or busy (503).",
      "application/json", error_schema_of(protocol::ErrorShape::standard, parts), {});
  return responses;
}

// A body is optional if all its fields have defaults.
bj::object request_body_of(const BoundRoute& route, Parts& parts) {
  bj::object schema = json::schema(*route.body, json::SchemaUse::request);
  const bool required = !schema.at("required").as_array().empty();
  bj::object media{{"schema", refer(std::move(schema), parts)},
                   {"example", *parts.examples.record(route.body->title)}};
  return {{"required", required}, {"content", {{"application/json", std::move(media)}}}};
}

bj::object operation_of(const BoundRoute& route, Parts& parts) {
  bj::object operation{{"tags", bj::array{route.info.tag}},
                       {"summary", route.info.summary},
                       {"responses", responses_of(route, parts)}};
  if (auto parameters = parameters_of(route, parts.examples); !parameters.empty()) {
    operation["parameters"] = std::move(parameters);
  }
  if (route.body != nullptr) operation["requestBody"] = request_body_of(route, parts);
  return operation;
}

bj::object tag(std::string_view name, std::string_view description) {
  return {{"name", name}, {"description", description}};
}

std::string render(const std::string& version) {
  bj::object paths;
  Parts parts;
  for (const BoundRoute& route : all_routes()) {
    auto& path = paths[route.info.pattern];
    if (!path.is_object()) path = bj::object{};
    path.as_object()[to_lower(route.info.method)] = operation_of(route, parts);
  }
  const bj::object document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "gpuyard"},
        {"version", version},
        {"description",
         "Monitor, share and control the GPUs of a machine, and alert when something is wrong."}}},
      {"tags",
       bj::array{tag("GPU", "GPUs and their driver: identity and readings."),
                 tag("Energy", "Energy use of the GPUs, and measurement windows."),
                 tag("Control", "GPU settings: who set them, and until when."),
                 tag("Leases", "Leases and the queue of claims."),
                 tag("Slurm", "Interface for the Slurm hooks on this machine."),
                 tag("Kubernetes", "Interface for the Kubernetes agent on this machine."),
                 tag("Tokens", "Access tokens for remote programs."),
                 tag("Alerts", "Alerts, acknowledgements, silences and notification sinks."),
                 tag("Pages", "Web pages."),
                 tag("Observability", "Health and metrics of this daemon.")}},
      {"paths", std::move(paths)},
      {"security", bj::array{bj::object{}, bj::object{{"token", bj::array{}}}}},
      {"components",
       {{"schemas", std::move(parts.schemas)},
        {"securitySchemes",
         {{"token", {{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "gpy_..."}}}}}}}};
  return bj::serialize(document);
}

void get_openapi(PageApi& api, const NoParams&, const Responder<Text>& respond) {
  constexpr std::uint64_t kForEver = 0;  // nothing in it changes while the daemon runs
  respond(Text{"application/json",
               api.openapi.get(kForEver, [&] { return render(api.daemon.version); })});
}

}  // namespace

std::vector<BoundRoute> openapi_routes() {
  return {bind(protocol::kOpenApi, &get_openapi)};
}

}  // namespace gpuyard::api
