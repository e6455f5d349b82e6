#include "cli/slurm/cluster_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/slurm/gpu_types.h"
#include "cli/slurm/plan_page.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr std::string_view kHeader =
    "# Written by `gpuyard slurm plan`; the same file on every machine.\n";

const PlannedNode* find_controller(const ClusterSpec& spec, const std::vector<PlannedNode>& nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (spec.hosts[i].name == spec.controller ||
        equals_ignoring_case(nodes[i].name, spec.controller)) {
      return &nodes[i];
    }
  }
  return nullptr;
}

std::optional<Error> controller_problem(const ClusterSpec& spec) {
  std::vector<std::string> names;
  for (const PlannedHost& host : spec.hosts) {
    if (host.name == spec.controller ||
        equals_ignoring_case(host.inventory.machine.hostname.value_or(""), spec.controller)) {
      return std::nullopt;
    }
    names.push_back(printable(host.name));
  }
  return Error{Errc::invalid,
               fmt::format("--controller: \"{}\" is not one of the machines {}",
                           printable(spec.controller), fmt::join(names, ", ")),
               "", fmt::format("gpuyard slurm plan --controller {} ...", names.front())};
}

std::vector<Error> shared_name_problems(const ClusterSpec& spec) {
  std::map<std::string, std::string> first;  // by host name
  std::vector<Error> problems;
  for (const PlannedHost& host : spec.hosts) {
    const std::string name = to_lower(host.inventory.machine.hostname.value_or(""));
    if (name.empty()) continue;
    const auto [other, added] = first.emplace(name, host.name);
    if (added) continue;
    problems.push_back(
        {Errc::invalid,
         fmt::format("{} and {} have the same host name, {}", printable(other->second),
                     printable(host.name), printable(name)),
         "slurm.conf names each machine by its `hostname -s`",
         "sudo hostnamectl set-hostname NAME  # on one of them, unless both are one machine"});
  }
  return problems;
}

std::vector<Error> problems_of_cluster(const ClusterSpec& spec) {
  if (spec.hosts.empty()) {
    return {{Errc::invalid, "no machines given", "", "gpuyard slurm plan --hosts lab1,lab2 ..."}};
  }
  std::vector<Error> problems;
  for (const PlannedHost& host : spec.hosts) {
    std::ranges::move(problems_of(host), std::back_inserter(problems));
  }
  std::ranges::move(shared_name_problems(spec), std::back_inserter(problems));
  if (auto problem = controller_problem(spec)) problems.push_back(*std::move(problem));
  return problems;
}

std::string node_line(const PlannedNode& node, const GpuTypes& types) {
  std::string line = fmt::format("NodeName={} CPUs={}", node.name, node.cpus);
  if (node.layout) {
    line += fmt::format(" Sockets={} CoresPerSocket={} ThreadsPerCore={}", node.layout->sockets,
                        node.layout->cores_per_socket, node.layout->threads_per_core);
  }
  line += fmt::format(" RealMemory={}", node.memory_mib);
  if (!node.gpus.empty()) line += " Gres=" + gres_of(node, types);
  return line + "\n";
}

// The shares of a job that asks for a GPU alone: on every machine, each GPU can have its share.
struct GpuShare {
  std::int64_t cpus = 0;
  std::int64_t memory_mib = 0;
};
std::optional<GpuShare> gpu_share(const std::vector<PlannedNode>& nodes) {
  std::optional<GpuShare> least;
  for (const PlannedNode& node : nodes) {
    const auto gpus = static_cast<std::int64_t>(node.gpus.size());
    if (gpus == 0) continue;
    // Slurm allocates whole cores.
    const std::int64_t threads = node.layout ? node.layout->threads_per_core : 1;
    const std::int64_t cores = node.layout ? node.layout->cores() : node.cpus;
    const GpuShare share{std::max<std::int64_t>(1, cores / gpus * threads),
                         std::max<std::int64_t>(1, node.memory_mib / gpus)};
    if (!least) least = share;
    least->cpus = std::min(least->cpus, share.cpus);
    least->memory_mib = std::min(least->memory_mib, share.memory_mib);
  }
  return least;
}

std::string priority_lines(const std::string& controller, bool accounting) {
  if (!accounting) {
    return "# First come, first served, with backfill. Fair share needs slurmdbd: --accounting.\n"
           "PriorityType=priority/basic\n";
  }
  return fmt::format(
      "# Fair share by GPU time, then age.\n"
      "PriorityType=priority/multifactor\n"
      "PriorityWeightFairshare=10000\n"
      "PriorityWeightAge=1000\n"
      "PriorityDecayHalfLife=7-0\n"
      "AccountingStorageType=accounting_storage/slurmdbd\n"
      "AccountingStorageHost={}\n"
      "AccountingStorageTRES=gres/gpu\n"
      "JobAcctGatherType=jobacct_gather/cgroup\n",
      controller);
}

std::string hook_lines(bool accounting) {
  return fmt::format(
      "# Hooks of gpuyard: `gpuyard slurm install` writes them on every machine.\n"
      "HealthCheckProgram=/etc/gpuyard/slurm/health\n"
      "HealthCheckInterval=30\n"
      "PrologFlags=Alloc\n"
      "Prolog=/etc/gpuyard/slurm/prolog\n"
      "Epilog=/etc/gpuyard/slurm/epilog\n"
      "{}EpilogSlurmctld=/etc/gpuyard/slurm/epilog-slurmctld\n",
      accounting ? "" : "# Writes the energy of each job to its AdminComment; needs slurmdbd.\n# ");
}

std::string slurm_conf(const ClusterSpec& spec, const std::vector<PlannedNode>& nodes,
                       const GpuTypes& types, const std::string& controller) {
  std::string text = fmt::format(
      "{0}ClusterName={1}\n"
      "SlurmctldHost={2}\n"
      "SlurmUser=slurm\n"
      "AuthType=auth/munge\n"
      "StateSaveLocation=/var/lib/slurm/slurmctld\n"
      "SlurmdSpoolDir=/var/lib/slurm/slurmd\n"
      "SlurmctldLogFile=/var/log/slurm/slurmctld.log\n"
      "SlurmdLogFile=/var/log/slurm/slurmd.log\n"
      "SlurmctldPort={3}\n"
      "SlurmdPort={4}\n"
      "SrunPortRange={5}\n"
      "ProctrackType=proctrack/cgroup\n"
      "TaskPlugin=task/cgroup,task/affinity\n"
      "# A machine that was rebooted gets jobs again once its slurmd registers.\n"
      "ReturnToService=2\n"
      "# An interactive job whose srun or salloc is gone for this many seconds ends.\n"
      "InactiveLimit=120\n\n",
      kHeader, kClusterName, controller, kSlurmctldPort, kSlurmdPort, kSrunPorts);
  text +=
      "# Jobs share a machine by its cores, memory and GPUs.\n"
      "SchedulerType=sched/backfill\n"
      "SelectType=select/cons_tres\n"
      "SelectTypeParameters=CR_Core_Memory\n"
      "GresTypes=gpu\n";
  if (const auto share = gpu_share(nodes)) {
    text += fmt::format("DefCpuPerGPU={}\nDefMemPerGPU={}\n", share->cpus, share->memory_mib);
  }
  text += "\n" + priority_lines(controller, spec.accounting);
  text += "\n" + hook_lines(spec.accounting) + "\n";
  for (const PlannedNode& node : nodes) text += node_line(node, types);
  text += fmt::format(
      "# Backfill needs the end of each job: --time, or else DefaultTime.\n"
      "PartitionName=gpu Nodes=ALL Default=YES DefaultTime=04:00:00 MaxTime=7-00:00:00 "
      "State=UP{}\n",
      spec.accounting ? " TRESBillingWeights=GRES/gpu=1.0" : "");
  return text;
}

std::string gres_conf(const std::vector<PlannedNode>& nodes, const GpuTypes& types) {
  std::string text = fmt::format("{}AutoDetect=off\n", kHeader);
  for (const PlannedNode& node : nodes) {
    for (const std::string& gpu : node.left_out) text += fmt::format("# Left out: {}\n", gpu);
    for (auto first = node.gpus.begin(); first != node.gpus.end();) {
      auto last = first;
      const auto follows = [&](const PlannedGpu& gpu) {
        return gpu.minor == last->minor + 1 && gpu.model == first->model &&
               gpu.cores == first->cores;
      };
      while (std::next(last) != node.gpus.end() && follows(*std::next(last))) ++last;
      text += fmt::format("NodeName={} Name=gpu Type={} File=/dev/nvidia{}{}\n", node.name,
                          types.at(first->model),
                          first == last ? std::to_string(first->minor)
                                        : fmt::format("[{}-{}]", first->minor, last->minor),
                          first->cores.empty() ? "" : " Cores=" + first->cores);
      first = std::next(last);
    }
  }
  return text;
}

std::string cgroup_conf() {
  return fmt::format("{}ConstrainCores=yes\nConstrainDevices=yes\n", kHeader);
}

std::string slurmdbd_conf(const std::string& controller) {
  return fmt::format(
      "# Written by `gpuyard slurm plan`; for {0}, which runs slurmdbd and its database.\n"
      "AuthType=auth/munge\n"
      "DbdHost={0}\n"
      "DbdPort={1}\n"
      "SlurmUser=slurm\n"
      "LogFile=/var/log/slurm/slurmdbd.log\n"
      "StorageType=accounting_storage/mysql\n"
      "StorageHost=localhost\n"
      "StorageUser=slurm\n"
      "StorageLoc=slurm_acct_db\n",
      controller, kSlurmdbdPort);
}

std::vector<std::string> notes_of(const ClusterSpec& spec, const std::vector<PlannedNode>& nodes,
                                  const GpuTypes& types) {
  std::vector<std::string> notes;
  for (const auto& [model, type] : types) {
    notes.push_back(fmt::format("{} is Type={}", printable(model), type));
  }
  std::set<std::string> versions;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PlannedNode& node = nodes[i];
    for (const std::string& gpu : node.left_out) notes.push_back("left out: " + gpu);
    if (node.gpus.empty()) notes.push_back(node.name + " has no GPUs for Slurm");
    if (!node.layout) {
      notes.push_back(node.name +
                      ": its sockets, cores and threads are unknown or uneven, so each CPU counts "
                      "as a core, and its GPUs have no Cores=");
    }
    if (const auto& version = spec.hosts[i].inventory.machine.slurm_version) {
      versions.insert(printable(*version));
    }
    if (spec.hosts[i].inventory.machine.in_container.value_or(false)) {
      notes.push_back(node.name +
                      ": its daemon runs in a container; the hooks on the machine need its "
                      "socket at /run/gpuyard/gpuyard.sock");
    }
    if (spec.hosts[i].inventory.simulated) notes.push_back(node.name + " simulates its GPUs");
  }
  const bool tested = std::ranges::all_of(
      versions, [](const std::string& version) { return version.starts_with(kTestedSlurm); });
  if (versions.size() > 1) {
    notes.push_back(fmt::format("the machines have different versions of Slurm: {}",
                                fmt::join(versions, ", ")));
  }
  if (!tested) {
    notes.push_back(fmt::format("the plan is tested with Slurm {}, and a machine has {}",
                                kTestedSlurm, fmt::join(versions, ", ")));
  }
  return notes;
}

}  // namespace

ClusterPlan plan_cluster(const ClusterSpec& spec) {
  ClusterPlan plan;
  plan.problems = problems_of_cluster(spec);
  if (!plan.problems.empty()) return plan;
  std::vector<PlannedNode> nodes;
  std::vector<std::string> models;
  for (const PlannedHost& host : spec.hosts) {
    nodes.push_back(node_of(host));
    for (const PlannedGpu& gpu : nodes.back().gpus) models.push_back(gpu.model);
  }
  if (models.empty()) {
    plan.problems.push_back({Errc::not_found, "the machines have no GPUs for Slurm",
                             "GPUs in MIG mode are left out", "gpuyard fleet gpus"});
    return plan;
  }
  const GpuTypes types = gpu_types_of(models);
  const std::string controller = find_controller(spec, nodes)->name;
  plan.notes = notes_of(spec, nodes, types);
  plan.files = {{"slurm.conf", slurm_conf(spec, nodes, types, controller)},
                {"gres.conf", gres_conf(nodes, types)},
                {"cgroup.conf", cgroup_conf()}};
  if (spec.accounting) plan.files.push_back({"slurmdbd.conf", slurmdbd_conf(controller), 0600});
  PageFacts facts{{}, controller, spec.accounting, plan.notes, types.begin()->second};
  for (const PlannedNode& node : nodes) facts.nodes.push_back(node.name);
  plan.files.push_back({"README.md", plan_page(facts)});
  return plan;
}

}  // namespace gpuyard::cli::slurm
