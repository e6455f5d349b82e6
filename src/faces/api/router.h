// From an HTTP request to the row of the route table that answers it. Thread: io.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parameters.h"
#include "faces/api/authenticator.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/principal.h"
#include "io/http/message.h"

namespace gpuyard::api {

// Every route, in the order in which they are documented.
const std::vector<BoundRoute>& all_routes();

// Returns the {name} segments of `pattern` with their values in `path`; nothing if there is no
// match.
std::optional<NamedValues> match(std::string_view pattern, std::string_view path);

// Returns the parameter's name for a header field: "last_event_id" for "Last-Event-ID".
std::string parameter_of_header(std::string_view field);

class Router {
 public:
  // The context outlives the router and every reply.
  Router(Context& context, Authority authority)
      : context_(context),
        authority_(std::move(authority)),
        authenticator_(context_.auth, authority_) {}
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // Matches the route first, then authenticates, then authorises, then validates.
  void handle(http::Request, http::Reply);

 private:
  void call(const BoundRoute&, NamedValues parameters, Authenticator::PendingCall&, Principal);

  Context& context_;
  Authority authority_;
  Authenticator authenticator_;
};

}  // namespace gpuyard::api
