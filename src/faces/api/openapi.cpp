// The API's description, OpenAPI 3.1, derived from the route table.
#include <boost/json.hpp>

#include "api/handlers.h"
#include "api/router.h"
#include "base/ascii.h"
#include "base/json_schema.h"

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

// What a segment of a path may be: printable ASCII, but neither of the two that a path resolves.
constexpr std::string_view kPathWord = R"(^(?!\.{1,2}$)[!-.0-~]+$)";

// Not empty, and no control character.
constexpr std::string_view kQueryText = R"(^[^\x00-\x1f\x7f]+$)";

bj::array parameters_of(const BoundRoute& route) {
  bj::array parameters;
  const bj::object schema = json::schema(*route.parameters);
  for (const auto& property : schema.at("properties").as_object()) {
    const std::string name(property.key());
    const bool in_header = name == parameter_of_header(route.info.header_field);
    const bool in_path = route.info.pattern.find("{" + name + "}") != std::string_view::npos;
    bj::object field = property.value().as_object();
    const bool required = in_path || !field.at("type").is_array();  // else it may be null
    bj::object parameter{{"name", in_header ? route.info.header_field : std::string_view(name)},
                         {"in", in_path     ? "path"
                                : in_header ? "header"
                                            : "query"},
                         {"required", required}};
    const bj::value& type = field.at("type");
    const bool text = (type.is_array() ? type.as_array().front() : type) == "string";
    if (text && !field.contains("enum")) field["pattern"] = in_path ? kPathWord : kQueryText;
    if (const auto* description = field.if_contains("description")) {
      parameter["description"] = *description;
      field.erase("description");
    }
    if (const auto example = parameter_example(route.info, name); !example.empty()) {
      parameter["example"] = example;
    }
    parameter["schema"] = std::move(field);
    parameters.emplace_back(std::move(parameter));
  }
  return parameters;
}

bj::value answer_schema_of(const BoundRoute& route, bj::object& shared) {
  if (route.answer != nullptr) return refer(json::schema(*route.answer), shared);
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

bj::value answer_example_of(const BoundRoute& route) {
  if (route.example != nullptr) return bj::parse(route.example());
  const std::string_view text = text_example(route.info);
  return text.empty() ? bj::value() : bj::value(text);
}

// {"error": {"code", "message"}}, or {"detail": message}.
bj::value error_schema_of(protocol::ErrorShape shape, bj::object& shared) {
  const bj::object text{{"type", "string"}};
  bj::object detail{{"title", "Detail"},
                    {"type", "object"},
                    {"properties", {{"detail", text}}},
                    {"required", bj::array{"detail"}}};
  if (shape == protocol::ErrorShape::detail) return refer(std::move(detail), shared);
  bj::object inner{{"type", "object"},
                   {"properties", {{"code", text}, {"message", text}}},
                   {"required", bj::array{"code", "message"}}};
  bj::object error{{"title", "Error"},
                   {"type", "object"},
                   {"properties", {{"error", std::move(inner)}}},
                   {"required", bj::array{"error"}}};
  return refer(std::move(error), shared);
}

std::string_view description_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "A parameter or a field of the body is unknown, repeated, missing or malformed.";
    case Errc::denied:
      return "The client may not do this.";
    case Errc::not_found:
      return "There is no such thing.";
    case Errc::unavailable:
      return "Not available now; the message says why.";
    default:
      return name_of(code);
  }
}

void put_failure(bj::object& responses, const BoundRoute& route, Errc code, bj::object& shared) {
  const http::Response response = render_error(route.info, error_example(code, route.info));
  responses[std::to_string(response.status)] =
      response_of(description_of(code), response.content_type,
                  error_schema_of(route.info.errors, shared), bj::parse(*response.body));
}

std::string_view also_answers(int status) {
  return status == protocol::kMultiStatus ? "Some GPUs failed; the answer says how each one ended."
                                          : "Not yet; the answer says why.";
}

bj::object responses_of(const BoundRoute& route, bj::object& shared) {
  bj::object responses;
  bj::object ok = response_of("OK", route.info.produces, answer_schema_of(route, shared),
                              answer_example_of(route));
  for (const std::string_view other : {route.info.csv, route.info.also_produces}) {
    if (!other.empty()) ok["content"].as_object()[other] = {{"schema", {{"type", "string"}}}};
  }
  responses[std::to_string(route.info.status)] = std::move(ok);
  if (route.info.also_answers_with != 0) {
    responses[std::to_string(route.info.also_answers_with)] =
        response_of(also_answers(route.info.also_answers_with), route.info.produces,
                    answer_schema_of(route, shared), {});
  }
  put_failure(responses, route, Errc::invalid, shared);
  if (route.info.scope > protocol::Scope::read) put_failure(responses, route, Errc::denied, shared);
  for (const Errc code : route.info.failures) put_failure(responses, route, code, shared);
  responses["default"] = response_of(
      "Refused before the route was reached (405, 408, 413, 414, 421, 431) or busy (503).",
      "application/json", error_schema_of(protocol::ErrorShape::standard, shared), {});
  return responses;
}

// Every body we take has a default for each of its fields, or says which are required.
bj::object request_body_of(const BoundRoute& route, bj::object& shared) {
  bj::object schema = json::schema(*route.body, json::Use::request);
  const bool required = !schema.at("required").as_array().empty();
  bj::object media{{"schema", refer(std::move(schema), shared)},
                   {"example", bj::parse(route.body_example())}};
  return {{"required", required}, {"content", {{"application/json", std::move(media)}}}};
}

bj::object operation_of(const BoundRoute& route, bj::object& shared) {
  bj::object operation{{"tags", bj::array{route.info.tag}},
                       {"summary", route.info.summary},
                       {"responses", responses_of(route, shared)}};
  if (auto parameters = parameters_of(route); !parameters.empty()) {
    operation["parameters"] = std::move(parameters);
  }
  if (route.body != nullptr) operation["requestBody"] = request_body_of(route, shared);
  return operation;
}

bj::object tag(std::string_view name, std::string_view description) {
  return {{"name", name}, {"description", description}};
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
      {"tags", bj::array{tag("GPU", "GPUs and their driver: what they are and what they do."),
                         tag("Energy", "What the GPUs used, and windows that measure it."),
                         tag("Control", "What is set of the GPUs, by whom, and until when."),
                         tag("Leases", "Who may use which GPU: claims, and the order of them."),
                         tag("Alerts", "What is wrong, who looks after it, and who is told."),
                         tag("Observability", "This daemon, and how to watch it.")}},
      {"paths", std::move(paths)},
      {"components", {{"schemas", std::move(shared)}}}};
  return bj::serialize(document);
}

void get_openapi(Context& context, const NoParams&, Responder<Text> respond) {
  constexpr std::uint64_t kForEver = 0;  // nothing in it changes while the daemon runs
  respond(Text{"application/json", context.openapi.get(kForEver, [&] { return render(context); })});
}

}  // namespace

std::vector<BoundRoute> openapi_routes() {
  return {bind(protocol::kOpenApi, &get_openapi)};
}

}  // namespace gpuyard::api
