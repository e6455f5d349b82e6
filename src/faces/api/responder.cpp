#include "faces/api/responder.h"

#include <utility>

#include "base/json_writer.h"

namespace gpuyard::api {

http::Response render_error(const protocol::RouteInfo& route, const Error& error) {
  if (route.errors == protocol::ErrorShape::standard) return http::error_response(error);
  std::string body = R"({"detail":)";
  json::put_string(body, error.text());
  body += '}';
  http::Response response{http_status_of(error.code), "application/json", std::move(body)};
  if (response.status == 503) {
    response.headers.push_back({"Retry-After", std::string(http::kRetryAfterSeconds)});
  }
  return response;
}

void reply_json(const protocol::RouteInfo& route, http::Reply& reply, int status,
                const json::Shape& shape, const void* answer) {
  std::string body;
  json::put(body, shape, answer);
  reply(http::Response(status, std::string(route.produces), std::move(body)));
}

}  // namespace gpuyard::api
