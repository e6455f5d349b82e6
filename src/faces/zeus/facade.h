// zeusd's protocol, so that programs which use the Zeus framework find in gpuyard the daemon they
// know. A translation: what is read, allowed, kept and put back is decided where it is for all.
#pragma once

#include <memory>
#include <utility>

#include "http/message.h"
#include "zeus/handlers.h"
#include "zeus/routes.h"

namespace gpuyard::zeus {

// A sign of life on a stream that has nothing to say.
inline constexpr Duration kHeartbeat = std::chrono::seconds(5);

class Facade {
 public:
  // What the context refers to outlives the facade, and everything that it streams.
  explicit Facade(Context context) : context_(std::move(context)) {}

  // Matches first, then asks whether the route is switched on and open to this client, then
  // validates. An http::Handler.
  void handle(http::Request, http::Reply);

 private:
  void dispatch(const Route&, std::shared_ptr<const http::Request>, const Answer&);

  Context context_;
};

}  // namespace gpuyard::zeus
