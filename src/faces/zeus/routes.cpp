#include "zeus/routes.h"

#include <array>

#include "base/parameters.h"

namespace gpuyard::zeus {
namespace {

template <class Parameters>
using Handler = void (*)(Context&, const Parameters&, const Call&);

template <class Parameters, Handler<Parameters> handler>
void checked(Context& context, const Call& call) {
  const auto parameters = read_parameters<Parameters>(call.request.query);
  if (!parameters) return call.answer.refuse(400, parameters.error().message);
  handler(context, *parameters, call);
}

constexpr auto kGet = http::Method::get;
constexpr auto kPost = http::Method::post;

constexpr std::array kRoutes = {
    Route{kGet, "/discover", Group::open, checked<Nothing, discover>},
    Route{kGet, "/time", Group::open, checked<Nothing, get_time>},
    Route{kGet, "/auth/whoami", Group::open, checked<Nothing, whoami>},
    Route{kPost, "/gpu/set_power_limit", Group::gpu_control,
          checked<PowerLimitWrite, set_power_limit>},
    Route{kPost, "/gpu/set_persistence_mode", Group::gpu_control,
          checked<PersistenceWrite, set_persistence_mode>},
    Route{kPost, "/gpu/set_gpu_locked_clocks", Group::gpu_control,
          checked<ClocksWrite, set_gpu_clocks>},
    Route{kPost, "/gpu/set_mem_locked_clocks", Group::gpu_control,
          checked<ClocksWrite, set_memory_clocks>},
    Route{kPost, "/gpu/reset_gpu_locked_clocks", Group::gpu_control,
          checked<Write, reset_gpu_clocks>},
    Route{kPost, "/gpu/reset_mem_locked_clocks", Group::gpu_control,
          checked<Write, reset_memory_clocks>},
    Route{kPost, "/gpu/reset_locked_clocks", Group::gpu_control, checked<Write, reset_clocks>},
    Route{kGet, "/gpu/get_power", Group::gpu_read, checked<SomeGpus, get_gpu_power>},
    Route{kGet, "/gpu/get_cumulative_energy", Group::gpu_read, checked<SomeGpus, get_gpu_energy>},
    Route{kGet, "/gpu/get_power_limit", Group::gpu_read, checked<SomeGpus, get_power_limit>},
    Route{kGet, "/gpu/get_power_limit_constraints", Group::gpu_read,
          checked<SomeGpus, get_power_limit_constraints>},
    Route{kGet, "/gpu/get_persistence_mode", Group::gpu_read,
          checked<SomeGpus, get_persistence_mode>},
    Route{kGet, "/gpu/stream_power", Group::gpu_read, checked<SomeGpus, stream_gpu_power>},
    Route{kGet, "/cpu/get_cumulative_energy", Group::cpu_read,
          checked<CpuEnergyWish, get_cpu_energy>},
    Route{kGet, "/cpu/get_power", Group::cpu_read, checked<SomeCpus, get_cpu_power>},
    Route{kGet, "/cpu/stream_power", Group::cpu_read, checked<SomeCpus, stream_cpu_power>},
};

}  // namespace

std::string_view name_of(Group group) {
  switch (group) {
    case Group::gpu_control:
      return "gpu-control";
    case Group::gpu_read:
      return "gpu-read";
    case Group::cpu_read:
      return "cpu-read";
    case Group::open:
      break;
  }
  return "open";
}

std::span<const Route> routes() {
  return kRoutes;
}

}  // namespace gpuyard::zeus
