#include "io/kube/client.h"

#include <utility>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/try.h"
#include "io/http/target.h"

namespace gpuyard::kube {
namespace {

void append_parameter(std::string& target, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  target += target.find('?') == target.npos ? '?' : '&';
  target.append(name).append("=").append(http::percent_encode(value));
}

std::string_view content_type_of(PatchType type) {
  return type == PatchType::merge ? "application/merge-patch+json"
                                  : "application/strategic-merge-patch+json";
}

// Adds {"metadata":{"resourceVersion":...}}, which the server compares with the object's.
Result<std::string> bind_to_version(const std::string& patch, std::string_view resource_version) {
  auto document = GPUYARD_TRY(json::parse(patch));
  boost::json::object* object = document.if_object();
  if (object == nullptr) return Error{Errc::invalid, "a patch must be a JSON object"};
  boost::json::value& metadata = (*object)["metadata"];
  if (!metadata.is_object()) metadata.emplace_object();
  metadata.get_object()["resourceVersion"] =
      boost::json::string_view(resource_version.data(), resource_version.size());
  return boost::json::serialize(document);
}

Answer rejected_answer(std::string why) {
  return {.outcome = Outcome::rejected, .message = std::move(why)};
}

}  // namespace

Client::Client(ApiServer server, Duration timeout)
    : server_(std::move(server)), timeout_(timeout) {}

Answer Client::get(std::string_view path) const {
  http::ClientRequest request;
  request.target = path;
  return send(std::move(request));
}

Answer Client::list(std::string_view path, const ListOptions& options) const {
  http::ClientRequest request;
  request.target = path;
  append_parameter(request.target, "labelSelector", options.label_selector);
  append_parameter(request.target, "fieldSelector", options.field_selector);
  if (options.limit > 0) append_parameter(request.target, "limit", std::to_string(options.limit));
  append_parameter(request.target, "continue", options.continue_at);
  return send(std::move(request));
}

Answer Client::create(std::string_view path, std::string object) const {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = path;
  request.body = std::move(object);
  return send(std::move(request));
}

Answer Client::patch(std::string_view path, PatchType type, std::string patch,
                     std::string_view resource_version) const {
  http::ClientRequest request;
  request.method = http::Method::patch;
  request.target = path;
  request.content_type = content_type_of(type);
  request.body = std::move(patch);
  if (!resource_version.empty()) {
    auto bound = bind_to_version(request.body, resource_version);
    if (!bound) return rejected_answer(bound.error().text());
    request.body = *std::move(bound);
  }
  return send(std::move(request));
}

Answer Client::remove(std::string_view path, std::string_view uid) const {
  http::ClientRequest request;
  request.method = http::Method::del;
  request.target = path;
  if (!uid.empty()) {
    request.body = R"({"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":)";
    json::put_string(request.body, uid);
    request.body += "}}";
  }
  return send(std::move(request));
}

Answer Client::send(http::ClientRequest request) const {
  auto credentials = read_credentials(server_);
  if (!credentials) return unreachable_answer(credentials.error().text());
  http::Origin origin = server_.origin;
  origin.ca_pem = std::move(credentials->ca_pem);
  request.target.insert(0, server_.path_prefix);
  request.headers.push_back({"Accept", "application/json"});
  // The server records changes under the first word of this field.
  request.headers.push_back({"User-Agent", "gpuyard"});
  if (!credentials->token.empty()) {
    request.headers.push_back({"Authorization", "Bearer " + credentials->token});
  }
  return to_answer(origin.text(), http::fetch(origin, request, timeout_, kMaxAnswerBytes));
}

}  // namespace gpuyard::kube
