// zeusd's protocol, so that programs which use the Zeus framework find in gpuyard the daemon they
// know. A translation: what is read, allowed, kept and put back is decided where it is for all.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "http/message.h"
#include "zeus/handlers.h"

namespace gpuyard::zeus {

// The table of zeusd's routes.

// What a daemon may have switched on or not, as zeusd divides it.
enum class Group { open, gpu_control, gpu_read, cpu_read };
std::string_view name_of(Group);  // "gpu-control"

struct Route {
  http::Method method;
  std::string_view path;
  Group group;
  void (*call)(Context&, const Call&);  // validates the parameters first
};

std::span<const Route> routes();

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
