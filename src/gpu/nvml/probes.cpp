#include "gpu/nvml/probes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "gpu/device/device.h"

namespace gpuyard::nvml {
namespace {

// Drivers before 460 do not report the kind of the far end, but its address. An end that is neither
// a GPU nor a switch is a CPU (POWER9), which does not link GPUs to each other.
std::optional<std::string> peer_of(const Api& api, DeviceHandle device, unsigned link) {
  unsigned kind = kNvlinkToGpu;
  if (api.nvlink_remote_type(device, link, &kind) == kSuccess) {
    if (kind == kNvlinkToSwitch) return std::string(kNvlinkSwitch);
    if (kind != kNvlinkToGpu) return std::nullopt;
  }
  PciInfo pci;
  if (api.nvlink_remote_pci(device, link, &pci) != kSuccess) return std::nullopt;
  pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
  if (pci.bus_id[0] == '\0') return std::nullopt;
  return short_pci_address(pci.bus_id);
}

}  // namespace

std::vector<std::string> nvlink_peers(const Api& api, DeviceHandle device) {
  std::set<std::string> peers;
  for (unsigned link = 0; link < kMaxNvlinks; ++link) {
    unsigned active = 0;
    const ReturnCode code = api.nvlink_state(device, link, &active);
    if (code == kInvalidArgument || code == kNotSupported || code == kFunctionNotFound) break;
    if (code != kSuccess || active != 1) continue;
    if (auto peer = peer_of(api, device, link)) peers.insert(*std::move(peer));
  }
  return {peers.begin(), peers.end()};
}

void read_pcie_throughput(const Api& api, DeviceHandle device, Probe probe, Recorder record) {
  constexpr std::int64_t kKilobyte = 1024;  // nvml.h says KB/s; nvidia-smi shows the same as KiB
  const Metric metric = row_of(probe).fills.front();
  const unsigned direction = probe == Probe::pcie_tx ? kPcieTx : kPcieRx;
  unsigned kilobytes = 0;
  const auto call = [&] { return api.pcie_throughput(device, direction, &kilobytes); };
  if (!record.try_query(metric, call)) return;
  if (is_no_value(kilobytes)) return record.implausible(metric);
  record.value(metric, kilobytes * kKilobyte);
}

void read_nvlink_state(const Api& api, DeviceHandle device, Recorder record) {
  unsigned active = 0;
  const auto ask_first = [&] { return api.nvlink_state(device, 0, &active); };
  if (!record.try_query(Metric::nvlink_active, ask_first)) return;
  record.value(Metric::nvlink_active, active);
  for (std::uint16_t link = 1; link < kMaxNvlinks; ++link) {
    const ReturnCode code = api.nvlink_state(device, link, &active);
    if (code == kInvalidArgument || code == kNotSupported) return;  // there are no more links
    record.answer(Metric::nvlink_active, code, active, link);
  }
}

// Modes, and the data printed on the board or burnt into it.
namespace {

struct Name {
  unsigned number;
  std::string_view text;
};
// nvmlBrandType_t
constexpr std::array kBrands = {
    Name{1, "Quadro"},      Name{2, "Tesla"},   Name{3, "NVS"},           Name{4, "GRID"},
    Name{5, "GeForce"},     Name{6, "Titan"},   Name{7, "vApps"},         Name{8, "vPC"},
    Name{9, "vCS"},         Name{10, "vWS"},    Name{11, "Cloud Gaming"}, Name{12, "Quadro RTX"},
    Name{13, "NVIDIA RTX"}, Name{14, "NVIDIA"}, Name{15, "GeForce RTX"},  Name{16, "Titan RTX"},
};
// nvmlDeviceArchitecture_t
constexpr std::array kArchitectures = {
    Name{2, "Kepler"},     Name{3, "Maxwell"}, Name{4, "Pascal"}, Name{5, "Volta"},
    Name{6, "Turing"},     Name{7, "Ampere"},  Name{8, "Ada"},    Name{9, "Hopper"},
    Name{10, "Blackwell"}, Name{13, "Rubin"},
};

// Shows a number that is newer than this table as a number.
template <std::size_t Count>
void put_name(Metric metric, unsigned number, const std::array<Name, Count>& names,
              Recorder& record) {
  const auto known = std::ranges::find(names, number, &Name::number);
  record.text(metric, known != names.end() ? std::string(known->text) : std::to_string(number));
}

template <unsigned Size, class Call>
void read_text(Metric metric, const Call& call, DeviceHandle device, Recorder& record) {
  std::array<char, Size> text{};
  if (!record.try_query(metric, [&] { return call(device, text.data(), Size); })) return;
  text.back() = '\0';
  record.text(metric, text.data());
}

// Reads a mode and the mode after the next reset.
template <class Call>
void read_pair(Metric current, Metric pending, const Call& call, DeviceHandle device,
               Recorder& record) {
  unsigned now = 0;
  unsigned later = 0;
  const std::array rows = {current, pending};
  if (!record.try_query(rows, [&] { return call(device, &now, &later); })) return;
  record.value(current, now);
  record.value(pending, later);
}

// Finds the node with the nearest memory. A GPU whose own memory is a node (Grace Hopper) may know
// only that node.
ReturnCode read_numa_node(const Api& api, DeviceHandle device, unsigned* node) {
  std::array<unsigned long, 16> nearest{};
  const ReturnCode code =
      api.memory_affinity(device, nearest.size(), nearest.data(), kAffinityOfNode);
  if (code != kSuccess && code != kNotSupported && code != kFunctionNotFound) return code;
  unsigned found = 0;
  for (unsigned bit = 0; bit < nearest.size() * 64 && code == kSuccess; ++bit) {
    if ((nearest.at(bit / 64) >> (bit % 64) & 1U) == 0) continue;
    *node = bit;
    ++found;
  }
  return found == 1 ? kSuccess : api.numa_node(device, node);
}

}  // namespace

void read_modes(const Api& api, DeviceHandle device, Recorder record) {
  record.query(Metric::persistence_mode, api.persistence_mode, device);
  record.query(Metric::compute_mode, api.compute_mode, device);
  read_pair(Metric::ecc_mode, Metric::ecc_mode_pending, api.ecc_mode, device, record);
  read_pair(Metric::mig_mode, Metric::mig_mode_pending, api.mig_mode, device, record);
}

void read_inventory(const Api& api, DeviceHandle device, Recorder record) {
  read_text<kSerialSize>(Metric::serial, api.serial, device, record);
  read_text<kBoardPartSize>(Metric::board_part_number, api.board_part_number, device, record);
  read_text<kVbiosSize>(Metric::vbios_version, api.vbios_version, device, record);
  read_text<kInforomSize>(Metric::inforom_version, api.inforom_image_version, device, record);
  unsigned number = 0;
  if (record.try_query(Metric::brand, [&] { return api.brand(device, &number); })) {
    put_name(Metric::brand, number, kBrands, record);
  }
  if (record.try_query(Metric::architecture, [&] { return api.architecture(device, &number); })) {
    put_name(Metric::architecture, number, kArchitectures, record);
  }
  int major = 0;
  int minor = 0;
  const auto call = [&] { return api.compute_capability(device, &major, &minor); };
  if (record.try_query(Metric::compute_capability, call)) {
    record.text(Metric::compute_capability, fmt::format("{}.{}", major, minor));
  }
  record.query<unsigned>(Metric::numa_node,
                         [&](unsigned* node) { return read_numa_node(api, device, node); });
  record.query(Metric::minor_number, api.minor_number, device);
}

}  // namespace gpuyard::nvml
