// Answers, bodies, parameters and errors as the API's description shows them: two simulated H100 at
// one moment, and five minutes later. A record without an example is left without, and a test says
// so of those that need one.
#pragma once

#include <memory>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "protocol/route.h"

namespace gpuyard::api {

class Examples {
 public:
  Examples();
  Examples(const Examples&) = delete;
  Examples& operator=(const Examples&) = delete;
  ~Examples();

  // Of a record, by the name of its schema; null: there is none.
  const boost::json::value* record(std::string_view schema) const;
  // Of an answer that is text; "" where none would help.
  std::string_view text(const protocol::RouteInfo&) const;
  // Of the parameter of this name; "" where none would help.
  std::string_view parameter(const protocol::RouteInfo&, std::string_view name) const;
  // What an error of this kind says.
  Error error(Errc, const protocol::RouteInfo&) const;

 private:
  std::unique_ptr<const boost::json::object> all_;
};

}  // namespace gpuyard::api
