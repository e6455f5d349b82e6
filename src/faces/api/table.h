// The route table's other half: a handler for each route of src/faces/protocol/routes.h. Matching,
// authorisation, validation, rendering and the OpenAPI text work on its rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/examples.h"
#include "api/principal.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/parameters.h"
#include "http/message.h"
#include "protocol/route.h"

namespace gpuyard::api {

struct Context;  // what handlers may use: context.h

http::Response render_error(const protocol::RouteInfo&, const Error&);

// What a call brings, beside its route.
struct Asked {
  Principal principal;
  NamedValues parameters;
  std::string body;
  std::string request_id = {};  // in logs and in the audit
  TimePoint received = {};
  http::Peer peer = {};
  // What the caller lacks, unless he has a lease of the GPUs: RouteInfo::for_holders.
  std::optional<Error> unless_holder = {};
  std::string accept = {};  // of a route that also_produces something else
};

void refuse(const protocol::RouteInfo&, http::Reply&, const Error&);
void reply_json(const protocol::RouteInfo&, http::Reply&, int status, const json::Shape&,
                const void* answer);

// Answers one call, once, now or later.
template <class Answer>
class Responder {
 public:
  Responder(const protocol::RouteInfo& route, http::Reply reply)
      : route_(&route), reply_(std::move(reply)) {}

  // An answer with header fields of its own.
  void as_is(http::Response response) { reply_(std::move(response)); }

  // An answer that was rendered before.
  void rendered(std::shared_ptr<const std::string> body) {
    reply_(http::Response(route_->status, std::string(route_->produces), std::move(body)));
  }

  void operator()(const Result<Answer>& answer) { (*this)(answer, route_->status); }

  void operator()(const Result<Answer>& answer, int status) {
    if (!answer) return refuse(*route_, reply_, answer.error());
    if constexpr (std::is_same_v<Answer, protocol::Text>) {
      reply_(http::Response(status, answer->content_type, answer->body));
    } else {
      reply_json(*route_, reply_, status, json::shape_of<Answer>, &*answer);
    }
  }

 private:
  const protocol::RouteInfo* route_;
  http::Reply reply_;
};

struct BoundRoute {
  protocol::RouteInfo info;
  const json::Shape* parameters = nullptr;
  const json::Shape* body = nullptr;        // null where there is no body
  std::string (*body_example)() = nullptr;  // null for that
  const json::Shape* answer = nullptr;      // null for an answer that is not JSON
  std::string (*example)() = nullptr;       // null for that, and where examples.h has none
  // Strictly; null for an answer that is not JSON.
  Result<void> (*decode)(std::string_view answer) = nullptr;
  std::function<void(Context&, const protocol::RouteInfo&, const Asked&, http::Reply)> call = {};
};

// What was asked, into new records of these shapes. Without a shape of the body: whatever it
// brings.
Result<void> read_asked(const Asked&, const json::Shape& of_parameters, void* parameters,
                        const json::Shape* of_body, void* body);

// `handler` takes all there is: context, what was asked, parameters, body and responder.
template <class Params, class Answer, class Body, class Handler>
BoundRoute bind_with(const protocol::Route<Params, Answer, Body>& route, Handler handler) {
  BoundRoute bound{.info = route, .parameters = &json::shape_of<Params>};
  if constexpr (!std::is_same_v<Body, protocol::NoBody>) {
    bound.body = &json::shape_of<Body>;
    bound.body_example = [] { return json::to_json(example_of(std::type_identity<Body>{})); };
  }
  if constexpr (!std::is_same_v<Answer, protocol::Text>) {
    bound.answer = &json::shape_of<Answer>;
    bound.decode = [](std::string_view text) -> Result<void> {
      Answer answer{};
      return json::read(text, json::shape_of<Answer>, &answer, json::UnknownFields::refuse);
    };
    if constexpr (HasExample<Answer>) {
      bound.example = [] { return json::to_json(example_of(std::type_identity<Answer>{})); };
    }
  }
  bound.call = [handler, of_body = bound.body](Context& context, const protocol::RouteInfo& info,
                                               const Asked& asked, http::Reply reply) {
    Params parameters{};
    Body body{};
    const auto read = read_asked(asked, json::shape_of<Params>, &parameters, of_body, &body);
    if (!read) return refuse(info, reply, read.error());
    handler(context, asked, parameters, body, Responder<Answer>(info, std::move(reply)));
  };
  return bound;
}

template <class Params, class Answer, class Body>
BoundRoute bind(const protocol::Route<Params, Answer, Body>& route,
                void (*handler)(Context&, const Asked&, const Params&, const Body&,
                                Responder<Answer>)) {
  return bind_with(route, handler);
}

// A handler to which it matters who asks.
template <class Params, class Answer>
BoundRoute bind(const protocol::Route<Params, Answer>& route,
                void (*handler)(Context&, const Asked&, const Params&, Responder<Answer>)) {
  return bind_with(route, [handler](Context& context, const Asked& asked, const Params& parameters,
                                    const protocol::NoBody&, Responder<Answer> respond) {
    handler(context, asked, parameters, std::move(respond));
  });
}

template <class Params, class Answer>
BoundRoute bind(const protocol::Route<Params, Answer>& route,
                void (*handler)(Context&, const Params&, Responder<Answer>)) {
  return bind_with(route, [handler](Context& context, const Asked&, const Params& parameters,
                                    const protocol::NoBody&, Responder<Answer> respond) {
    handler(context, parameters, std::move(respond));
  });
}

// Every route, in the order in which they are documented.
const std::vector<BoundRoute>& table();

}  // namespace gpuyard::api
