#include "faces/zeus/facade.h"

#include <array>

#include <fmt/format.h>

#include "base/parameters.h"
#include "faces/zeus/handlers.h"
#include "faces/zeus/zeus_responder.h"

namespace gpuyard::zeus {
namespace {

http::Response wrong_method_response(const http::Request& request, http::Method allowed) {
  http::Response response =
      error_response(405, fmt::format("{} does not support {}; it supports {}", request.path,
                                      http::name_of(request.method), http::name_of(allowed)));
  response.headers.push_back({"Allow", std::string(http::name_of(allowed))});
  return response;
}

// Checks whether this client may use the group's routes at all.
Result<void> check_group_access(const Context& context, Group group, const http::Request& request) {
  if (group == Group::cpu_read) return check_cpu_access(context, request);
  if (group != Group::gpu_control) return {};
  if (auto on = context.control.check_enabled(); !on) return on;
  return context.control.check_access(request);
}

template <class Parameters>
using Handler = void (*)(Context&, const Parameters&, const Call&);

template <class Parameters, Handler<Parameters> handler>
void validate_and_call(Context& context, const Call& call) {
  const auto parameters = read_parameters<Parameters>(call.request.query);
  if (!parameters) return call.responder.send_error(400, parameters.error().text());
  handler(context, *parameters, call);
}

constexpr auto kGet = http::Method::get;
constexpr auto kPost = http::Method::post;

constexpr std::array kRoutes = {
    Route{kGet, "/discover", Group::open, validate_and_call<NoParams, discover>},
    Route{kGet, "/time", Group::open, validate_and_call<NoParams, get_time>},
    Route{kGet, "/auth/whoami", Group::open, validate_and_call<NoParams, whoami>},
    Route{kPost, "/gpu/set_power_limit", Group::gpu_control,
          validate_and_call<PowerLimitParams, set_power_limit>},
    Route{kPost, "/gpu/set_persistence_mode", Group::gpu_control,
          validate_and_call<PersistenceParams, set_persistence_mode>},
    Route{kPost, "/gpu/set_gpu_locked_clocks", Group::gpu_control,
          validate_and_call<ClocksParams, set_gpu_clocks>},
    Route{kPost, "/gpu/set_mem_locked_clocks", Group::gpu_control,
          validate_and_call<ClocksParams, set_memory_clocks>},
    Route{kPost, "/gpu/reset_gpu_locked_clocks", Group::gpu_control,
          validate_and_call<SetterParams, reset_gpu_clocks>},
    Route{kPost, "/gpu/reset_mem_locked_clocks", Group::gpu_control,
          validate_and_call<SetterParams, reset_memory_clocks>},
    Route{kPost, "/gpu/reset_locked_clocks", Group::gpu_control,
          validate_and_call<SetterParams, reset_clocks>},
    Route{kGet, "/gpu/get_power", Group::gpu_read, validate_and_call<GpuParams, get_gpu_power>},
    Route{kGet, "/gpu/get_cumulative_energy", Group::gpu_read,
          validate_and_call<GpuParams, get_gpu_energy>},
    Route{kGet, "/gpu/get_power_limit", Group::gpu_read,
          validate_and_call<GpuParams, get_power_limit>},
    Route{kGet, "/gpu/get_power_limit_constraints", Group::gpu_read,
          validate_and_call<GpuParams, get_power_limit_constraints>},
    Route{kGet, "/gpu/get_persistence_mode", Group::gpu_read,
          validate_and_call<GpuParams, get_persistence_mode>},
    Route{kGet, "/gpu/stream_power", Group::gpu_read,
          validate_and_call<GpuParams, stream_gpu_power>},
    Route{kGet, "/cpu/get_cumulative_energy", Group::cpu_read,
          validate_and_call<CpuEnergyParams, get_cpu_energy>},
    Route{kGet, "/cpu/get_power", Group::cpu_read, validate_and_call<CpuParams, get_cpu_power>},
    Route{kGet, "/cpu/stream_power", Group::cpu_read,
          validate_and_call<CpuParams, stream_cpu_power>},
};

struct GpuFacts {
  std::uint32_t id = 0;
  std::string name;
  std::string pci_address;
  bool cumulative_energy_available = false;
  std::string uuid;
};
BOOST_DESCRIBE_STRUCT(GpuFacts, (), (id, name, pci_address, cumulative_energy_available, uuid))

struct CpuFacts {
  std::uint32_t id = 0;
  bool dram_available = false;
  std::string name;
};
BOOST_DESCRIBE_STRUCT(CpuFacts, (), (id, dram_available, name))

struct Discovery {
  std::vector<GpuFacts> gpus;
  std::vector<CpuFacts> cpus;
  std::vector<std::string> enabled_api_groups;
  bool auth_required = false;
  // Fields that clients older than zeusd 0.5 read.
  std::vector<std::uint32_t> gpu_ids;
  std::vector<std::uint32_t> cpu_ids;
  std::vector<bool> dram_available;
  std::string version;
  bool simulated = false;
};
BOOST_DESCRIBE_STRUCT(Discovery, (),
                      (gpus, cpus, enabled_api_groups, auth_required, gpu_ids, cpu_ids,
                       dram_available, version, simulated))

struct CurrentTime {
  std::int64_t timestamp_ms = 0;
};
BOOST_DESCRIBE_STRUCT(CurrentTime, (), (timestamp_ms))

void put_gpus(Discovery& to, const Snapshot& snapshot) {
  for (const DeviceState& device : snapshot.devices) {
    if (!is_present(device)) continue;
    const bool counts = device.sample.number(Metric::energy_total) != nullptr;
    to.gpus.push_back(
        {device.info.index, device.info.name, device.info.pci_address, counts, device.info.uuid});
    to.gpu_ids.push_back(device.info.index);
  }
}

// CPUs that cannot be read are listed too: a client that requests one gets the reason.
void put_cpus(Discovery& to, const cpu::Energies& energies) {
  for (const cpu::PackageEnergy& package : energies.packages) {
    to.cpus.push_back({package.number, package.dram_uj.has_value(), package.name});
    to.cpu_ids.push_back(package.number);
    to.dram_available.push_back(package.dram_uj.has_value());
  }
}

Discovery discovery_of(const Context& context, bool sees_cpus) {
  const auto snapshot = context.gpus.latest();
  Discovery discovery;
  put_gpus(discovery, *snapshot);
  if (sees_cpus) put_cpus(discovery, context.cpus.latest());
  auto& groups = discovery.enabled_api_groups;
  if (context.control.check_enabled()) groups.emplace_back(name_of(Group::gpu_control));
  groups.emplace_back(name_of(Group::gpu_read));
  if (!discovery.cpus.empty()) groups.emplace_back(name_of(Group::cpu_read));
  discovery.version = context.version;
  discovery.simulated = snapshot->driver.info.simulated;
  return discovery;
}

}  // namespace

void Facade::handle(http::Request request, http::Reply reply) {
  const bool simulated = context_.gpus.latest()->driver.info.simulated;
  // Every answer of a simulated machine is marked, including those whose body has no field for it.
  if (simulated) reply = http::with_field(std::move(reply), {"X-Gpuyard-Simulated", "true"});
  const ZeusResponder answer(std::move(reply));
  for (const Route& route : routes()) {
    if (route.path != request.path) continue;
    if (route.method != request.method)
      return answer.send(wrong_method_response(request, route.method));
    return dispatch(route, std::make_shared<const http::Request>(std::move(request)), answer);
  }
  answer.send_error(404, fmt::format("unknown path in zeusd's protocol: {}", request.path));
}

void Facade::dispatch(const Route& route, std::shared_ptr<const http::Request> request,
                      const ZeusResponder& answer) {
  if (const auto may = check_group_access(context_, route.group, *request); !may) {
    return answer.send_error(403, may.error().text());
  }
  if (route.group != Group::cpu_read) return route.call(context_, {*request, answer});
  after_cpu_discovery(context_, [this, &route, request = std::move(request), answer] {
    const cpu::Energies& known = context_.cpus.latest();
    if (!known.packages.empty()) return route.call(context_, {*request, answer});
    answer.send_error(404,
                      fmt::format("{} is off: {}", name_of(route.group), known.unavailable_reason));
  });
}

std::string_view name_of(Group group) {
  static constexpr std::array<std::string_view, 4> kNames = {"open", "gpu-control", "gpu-read",
                                                             "cpu-read"};
  return kNames[static_cast<std::size_t>(group)];
}

std::span<const Route> routes() {
  return kRoutes;
}

void after_cpu_discovery(Context& context, std::function<void()> on_done) {
  if (context.cpus.latest().taken != TimePoint{}) return on_done();
  context.cpus.read_fresh(
      [on_done = std::move(on_done)](const Result<cpu::Energies>&) { on_done(); });
}

void discover(Context& context, const NoParams&, const Call& call) {
  after_cpu_discovery(context, [&context, answer = call.responder,
                                sees_cpus = check_cpu_access(context, call.request).ok()] {
    answer.send_json(discovery_of(context, sees_cpus));
  });
}

void get_time(Context& context, const NoParams&, const Call& call) {
  call.responder.send_json(CurrentTime{context.loop.wall().time_since_epoch().count()});
}

void whoami(Context&, const NoParams&, const Call& call) {
  call.responder.send_error(404, "tokens are not used here: clients are identified by their UID");
}

}  // namespace gpuyard::zeus
