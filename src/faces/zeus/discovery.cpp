// What a client asks first: which GPUs and CPUs there are, what it may do, and what time it is.
#include "zeus/handlers.h"
#include "zeus/ids.h"
#include "zeus/routes.h"

namespace gpuyard::zeus {
namespace {

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
  // Where clients before zeusd 0.5 look.
  std::vector<std::uint32_t> gpu_ids;
  std::vector<std::uint32_t> cpu_ids;
  std::vector<bool> dram_available;
  std::string version;
  bool simulated = false;
};
BOOST_DESCRIBE_STRUCT(Discovery, (),
                      (gpus, cpus, enabled_api_groups, auth_required, gpu_ids, cpu_ids,
                       dram_available, version, simulated))

struct Now {
  std::int64_t timestamp_ms = 0;
};
BOOST_DESCRIBE_STRUCT(Now, (), (timestamp_ms))

void put_gpus(Discovery& to, const Snapshot& snapshot) {
  for (const DeviceState& device : snapshot.devices) {
    if (!is_there(device)) continue;
    const bool counts = device.sample.number(Metric::energy_total) != nullptr;
    to.gpus.push_back(
        {device.info.index, device.info.name, device.info.pci_address, counts, device.info.uuid});
    to.gpu_ids.push_back(device.info.index);
  }
}

// What cannot be read is listed too: a client that asks for it is told why.
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
  if (context.control.enabled()) groups.emplace_back(name_of(Group::gpu_control));
  groups.emplace_back(name_of(Group::gpu_read));
  if (!discovery.cpus.empty()) groups.emplace_back(name_of(Group::cpu_read));
  discovery.version = context.version;
  discovery.simulated = snapshot->driver.info.simulated;
  return discovery;
}

}  // namespace

void when_cpus_are_known(Context& context, std::function<void()> then) {
  if (context.cpus.latest().taken != TimePoint{}) return then();
  context.cpus.fresh([then = std::move(then)](const Result<cpu::Energies>&) { then(); });
}

void discover(Context& context, const Nothing&, const Call& call) {
  when_cpus_are_known(context, [&context, answer = call.answer,
                                sees_cpus = may_see_cpus(context, call.request).ok()] {
    answer.json(discovery_of(context, sees_cpus));
  });
}

void get_time(Context& context, const Nothing&, const Call& call) {
  call.answer.json(Now{context.loop.wall().time_since_epoch().count()});
}

void whoami(Context&, const Nothing&, const Call& call) {
  call.answer.refuse(404, "there are no tokens here: whoever may connect is known by its uid");
}

}  // namespace gpuyard::zeus
