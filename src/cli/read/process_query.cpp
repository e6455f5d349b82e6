#include "cli/read/process_query.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/words.h"

namespace gpuyard::cli {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"timestamp",    "gpu_name",       "gpu_bus_id",
                                                    "gpu_serial",   "gpu_uuid",       "pid",
                                                    "process_name", "used_gpu_memory"};

std::string canonical(const std::string& name) {
  if (name == "name") return "process_name";
  return name == "used_memory" ? "used_gpu_memory" : name;
}

const protocol::Device& device_of(const protocol::Snapshot& snapshot, std::uint32_t index) {
  return *std::ranges::find(snapshot.devices, index, &protocol::Device::index);
}

std::string memory_cell(const ListedProcess& process, bool units) {
  if (!process.memory_bytes) return "[N/A]";
  return fmt::format("{}{}", mebibytes(*process.memory_bytes), units ? " MiB" : "");
}

std::string cell(const std::string& field, const ListedProcess& process, const Queried& queried,
                 bool units) {
  if (field == "pid") return std::to_string(process.pid);
  if (field == "used_gpu_memory") return memory_cell(process, units);
  if (field == "process_name") {
    std::string name = printable(process.name.value_or("[Not Found]"));
    std::ranges::replace(name, ',', '?');
    return name;
  }
  // The rest is of the GPU, by the same name.
  const auto of_gpu = parse_field(field);
  return of_gpu ? csv_cell(*of_gpu, queried, device_of(queried.snapshot, process.gpu_index), units)
                : std::string("[N/A]");
}

}  // namespace

Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names) {
  if (names.empty()) {
    return std::vector<std::string>{"pid", "process_name", "gpu_uuid", "used_gpu_memory"};
  }
  std::vector<std::string> fields;
  for (const std::string& some : names) {
    for (const std::string& name : split(some, ',')) {
      fields.push_back(canonical(name));
      if (std::ranges::find(kNames, fields.back()) != kNames.end()) continue;
      return Error{Errc::invalid, fmt::format("there is no field \"{}\" of a process; there are {}",
                                              name, fmt::join(kNames, ", "))};
    }
  }
  return fields;
}

std::string process_csv(const std::vector<std::string>& fields, const ProcessAnswer& answer,
                        const Queried& queried, CsvStyle style) {
  std::string out;
  if (style.header) {
    std::vector<std::string> names = fields;
    std::ranges::replace(names, std::string("used_gpu_memory"), "used_gpu_memory [MiB]");
    out += fmt::format("{}\n", fmt::join(names, ", "));
  }
  for (const ListedProcess& process : answer.processes) {
    if (process.kind == ProcessKind::graphics) continue;
    std::vector<std::string> cells;
    for (const auto& field : fields) cells.push_back(cell(field, process, queried, style.units));
    out += fmt::format("{}\n", fmt::join(cells, ", "));
  }
  return out;
}

}  // namespace gpuyard::cli
