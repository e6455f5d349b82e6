// Serves zeusd's protocol, so that programs which use the Zeus framework can talk to gpuyard. It
// only translates: reading, permissions, ownership and restoring are decided elsewhere, as for all
// clients. Thread: io.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "faces/zeus/handlers.h"
#include "io/http/message.h"

namespace gpuyard::zeus {

// The groups of routes that a daemon can switch on or off, as zeusd divides them.
enum class Group { open, gpu_control, gpu_read, cpu_read };
std::string_view name_of(Group);  // "gpu-control"

struct Route {
  http::Method method;
  std::string_view path;
  Group group;
  void (*call)(Context&, const Call&);  // validates the parameters first
};

std::span<const Route> routes();

// The interval of the signs of life of a stream without data.
inline constexpr Duration kHeartbeatInterval = std::chrono::seconds(5);

class Facade {
 public:
  // The objects that the context refers to outlive the facade and all its streams.
  explicit Facade(Context context) : context_(std::move(context)) {}

  // Matches the route first, then checks that it is switched on and open to this client, then
  // validates. An http::Handler.
  void handle(http::Request, http::Reply);

 private:
  void dispatch(const Route&, std::shared_ptr<const http::Request>, const ZeusResponder&);

  Context context_;
};

}  // namespace gpuyard::zeus
