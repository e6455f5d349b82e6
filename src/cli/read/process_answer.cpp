#include "cli/read/process_answer.h"

namespace gpuyard::cli {
namespace {

ListedProcess listed(const protocol::Device& device, protocol::ProcessInFull process) {
  ListedProcess out{std::move(process), device.index, device.uuid, device.pci_address, {}};
  out.name = program_of(out);
  return out;
}

std::vector<protocol::ProcessInFull> processes_of(const protocol::Device& device,
                                                  const InFull& in_full) {
  const auto found = in_full.find(device.index);
  if (found != in_full.end() && found->second.processes) return *found->second.processes;
  std::vector<protocol::ProcessInFull> processes;
  for (const protocol::Process& process : *device.processes) processes.push_back({process, {}});
  return processes;
}

}  // namespace

std::optional<std::string> program_of(const protocol::ProcessInFull& process) {
  if (process.arguments && !process.arguments->empty() && !process.arguments->front().empty()) {
    return process.arguments->front();
  }
  return process.command;
}

ProcessAnswer process_answer(const protocol::Snapshot& snapshot, const InFull& in_full) {
  ProcessAnswer answer{protocol::kSchemaVersion, snapshot.simulated, snapshot.taken_at, {}, {}};
  for (const protocol::Device& device : snapshot.devices) {
    if (!device.processes) {
      const auto reason = device.missing.find("processes");
      answer.missing[device.uuid] = reason != device.missing.end() ? reason->second : "not known";
      continue;
    }
    for (auto& process : processes_of(device, in_full)) {
      answer.processes.push_back(listed(device, std::move(process)));
    }
  }
  return answer;
}

Result<ProcessAnswer> ask_processes(client::Source& source, const protocol::Snapshot& snapshot) {
  InFull in_full;
  for (const protocol::Device& device : snapshot.devices) {
    if (!device.processes || device.processes->empty()) continue;
    auto answer = source.processes(device.index);
    if (answer) {
      in_full.emplace(device.index, *std::move(answer));
    } else if (answer.error().code != Errc::not_found) {  // gone since, or an older daemon
      return std::move(answer).error();
    }
  }
  return process_answer(snapshot, in_full);
}

}  // namespace gpuyard::cli
