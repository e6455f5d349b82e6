// The examples in the API's description (answers, bodies, parameters and errors): two simulated
// H100 at one moment, and five minutes later. A record may have no example; a test fails for those
// that need one.
#pragma once

#include <memory>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "faces/protocol/route.h"

namespace gpuyard::api {

class Examples {
 public:
  Examples();
  Examples(const Examples&) = delete;
  Examples& operator=(const Examples&) = delete;
  ~Examples();

  // Returns the example of a record by the name of its schema; null: there is none.
  const boost::json::value* record(std::string_view schema) const;
  // Returns the example of a text answer; "" where none would help.
  std::string_view text(const protocol::RouteInfo&) const;
  // Returns the example of the parameter of this name; "" where none would help.
  std::string_view parameter(const protocol::RouteInfo&, std::string_view name) const;
  // Returns an example of an error of this kind.
  Error error(Errc, const protocol::RouteInfo&) const;

 private:
  std::unique_ptr<const boost::json::object> all_;
};

}  // namespace gpuyard::api
