// From an HTTP request to the row of the route table that answers it.
#pragma once

#include <optional>
#include <utility>

#include "api/context.h"
#include "api/table.h"
#include "http/message.h"

namespace gpuyard::api {

// The {name} segments of `pattern` with what stands in `path`; nothing if they do not match.
std::optional<NamedValues> match(std::string_view pattern, std::string_view path);

// The name in the parameters of a header field that is one: "last_event_id" of "Last-Event-ID".
std::string parameter_of_header(std::string_view field);

class Router {
 public:
  // `context` outlives the router.
  Router(Context& context, Authority authority)
      : context_(context), authority_(std::move(authority)) {}

  // Matches first, then authorises on the matched row, then validates.
  void handle(http::Request, http::Reply);

 private:
  Context& context_;
  Authority authority_;
};

}  // namespace gpuyard::api
