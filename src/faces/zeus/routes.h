// The table of zeusd's routes.
#pragma once

#include <span>
#include <string_view>

#include "zeus/handlers.h"

namespace gpuyard::zeus {

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

}  // namespace gpuyard::zeus
