// The answer to one call of a route.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/json_reader.h"
#include "base/result.h"
#include "faces/protocol/route.h"
#include "io/http/message.h"

namespace gpuyard::api {

// Returns the answer to a call that failed, in the shape of the route's errors.
http::Response render_error(const protocol::RouteInfo&, const Error&);

// Answers with a record of this shape.
void reply_json(const protocol::RouteInfo&, http::Reply&, int status, const json::Shape&,
                const void* answer);

// Answers one call, now or later. Copies answer the same call, because a std::function must be
// copyable; the first answer counts. Thread: io. The route outlives it.
template <class Answer>
class Responder {
 public:
  Responder(const protocol::RouteInfo& route, http::Reply reply)
      : route_(&route), reply_(std::make_shared<http::Reply>(std::move(reply))) {}

  // An answer with header fields of its own.
  void send(http::Response response) const { (*reply_)(std::move(response)); }

  // An answer that was rendered before.
  void send_rendered(std::shared_ptr<const std::string> body) const {
    send({route_->status, std::string(route_->produces), std::move(body)});
  }

  void operator()(const Result<Answer>& answer) const { (*this)(answer, route_->status); }

  void operator()(const Result<Answer>& answer, int status) const {
    if (!answer) return send(render_error(*route_, answer.error()));
    if constexpr (std::is_same_v<Answer, protocol::Text>) {
      send({status, answer->content_type, answer->body});
    } else {
      reply_json(*route_, *reply_, status, json::shape_of<Answer>, &*answer);
    }
  }

 private:
  const protocol::RouteInfo* route_;
  std::shared_ptr<http::Reply> reply_;
};

}  // namespace gpuyard::api
