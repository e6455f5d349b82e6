// The route of the machine's inventory.
#include <utility>

#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/query_queue.h"
#include "faces/api/responder.h"
#include "faces/api/verdict.h"

namespace gpuyard::api {
namespace {

using protocol::HostGpu;

// -1 is the kernel's word for no node.
std::optional<std::int64_t> numa_node_of(const Sample& sample) {
  const std::int64_t* const node = sample.number(Metric::numa_node);
  return node != nullptr && *node >= 0 ? std::optional(*node) : std::nullopt;
}

std::optional<bool> mig_mode_of(const Sample& sample) {
  if (const auto mode = sample.value(Metric::mig_mode)) return *mode != 0;
  return sample.is_unsupported(Metric::mig_mode) ? std::optional(false) : std::nullopt;
}

std::optional<std::string> loss_of(const DeviceState& gpu) {
  if (is_missing(gpu.info)) return "the driver does not list it";
  const auto loss = loss_reason(gpu);
  if (!loss) return std::nullopt;
  return describe(*loss);
}

HostGpu host_gpu_of(VerdictApi& verdicts, const DeviceState& gpu) {
  HostGpu out;
  out.index = gpu.info.index;
  out.minor = minor_of(verdicts, gpu);
  out.uuid = gpu.info.uuid;
  out.pci_address = gpu.info.pci_address;
  out.name = gpu.info.name;
  out.numa_node = numa_node_of(gpu.sample);
  out.mig_enabled = mig_mode_of(gpu.sample);
  out.lost = loss_of(gpu);
  return out;
}

void get_host(HostApi& api, const RouteCall& call, const NoParams&,
              const Responder<protocol::HostInventory>& respond) {
  const auto on_machine = [&api, respond](const Result<protocol::HostMachine>& machine) {
    if (!machine) return respond(machine.error());
    const telemetry::SnapshotPtr snapshot = api.telemetry.latest();
    protocol::HostInventory host;
    host.simulated = snapshot->driver.info.simulated;
    if (!snapshot->driver.initialised) host.driver_error = snapshot->driver.why;
    host.machine = *machine;
    for (const DeviceState& gpu : snapshot->devices) {
      host.gpus.push_back(host_gpu_of(api.verdicts, gpu));
    }
    respond(std::move(host));
  };
  enqueue_query<protocol::HostMachine>(api.queries, call, respond, api.read_machine, on_machine);
}

}  // namespace

std::vector<BoundRoute> host_routes() {
  return {bind(protocol::kHost, &get_host)};
}

}  // namespace gpuyard::api
