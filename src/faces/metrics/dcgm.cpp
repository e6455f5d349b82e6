// The rows of the catalog as dcgm-exporter 4.8 tells them: names and units are the catalog's
// columns, labels are below. 4.9 renamed a good part of them; what dashboards ask for are these.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "device/catalog.h"
#include "metrics/readings.h"

namespace gpuyard::metrics {
namespace {

// "0000:3b:00.0" as NVML and DCGM write it: "00000000:3B:00.0".
std::string bus_id_of(const std::string& pci_address) {
  if (pci_address.empty()) return {};
  std::string id = "0000" + pci_address;
  for (char& c : id) {
    if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
  }
  return id;
}

void put_labels(Text& text, const Snapshot& snapshot, const DeviceState& device,
                const std::string& hostname) {
  const DeviceInfo& info = device.info;
  const std::string index = std::to_string(info.index);
  text.label("gpu", index);
  text.label("UUID", info.uuid);
  text.label("pci_bus_id", bus_id_of(info.pci_address));
  text.label("device", "nvidia" + index);
  text.label("modelName", info.name);
  if (!hostname.empty()) text.label("Hostname", hostname);
  if (const auto& version = snapshot.driver.info.driver_version) {
    text.label("DCGM_FI_DRIVER_VERSION", *version);
  }
}

std::optional<std::int64_t> first_number(const DeviceState& device, Metric metric) {
  for (const Reading& reading : current_readings(device, metric)) {
    if (reading.index == 0 && reading.number() != nullptr) return *reading.number();
  }
  return std::nullopt;
}

// To DCGM what is used is what processes have; what driver and firmware keep it tells on its own.
std::optional<std::int64_t> number_of(const DeviceState& device, const Row& row) {
  const auto number = first_number(device, row.metric);
  if (!number || row.metric != Metric::memory_used) return number;
  const auto reserved = first_number(device, Metric::memory_reserved);
  return std::max<std::int64_t>(0, *number - reserved.value_or(0));
}

// DCGM has one name where we have several elements only of fans, of which it tells the first.
bool in_dcgm(const Row& row) {
  const bool one = row.dimension == Dimension::none || row.dimension == Dimension::fan;
  return row.subject == Subject::device && row.kind != Kind::text && one && !row.dcgm.empty();
}

void put_row(Text& text, const Snapshot& snapshot, const Row& row, const std::string& hostname) {
  const auto known = [&](const DeviceState& device) { return number_of(device, row).has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  const UnitInfo& unit = unit_info(row.unit);
  const std::string help =
      unit.dcgm.empty() ? std::string(row.help) : fmt::format("{} In {}.", row.help, unit.dcgm);
  text.family(row.dcgm, row.kind == Kind::counter ? "counter" : "gauge", help);
  for (const DeviceState& device : snapshot.devices) {
    const auto number = number_of(device, row);
    if (!number) continue;
    text.begin(row.dcgm);
    put_labels(text, snapshot, device, hostname);
    text.end(static_cast<double>(*number) / static_cast<double>(unit.dcgm_divisor));
  }
}

// The number of the Xid seen last; 0 where there was none.
double last_xid(const std::vector<XidCount>& xids) {
  const XidCount* last = nullptr;
  for (const XidCount& one : xids) {
    if (one.xid && (last == nullptr || one.last_seen > last->last_seen)) last = &one;
  }
  return last == nullptr ? 0 : static_cast<double>(*last->xid);
}

void put_xids(Text& text, const Snapshot& snapshot, const std::string& hostname) {
  constexpr std::string_view kName = "DCGM_FI_DEV_XID_ERRORS";
  const auto known = [](const DeviceState& device) { return device.xid_errors.has_value(); };
  if (!std::ranges::any_of(snapshot.devices, known)) return;
  text.family(kName, "gauge", "The Xid seen last since the daemon started; 0 if none was.");
  for (const DeviceState& device : snapshot.devices) {
    if (!known(device)) continue;
    text.begin(kName);
    put_labels(text, snapshot, device, hostname);
    text.end(last_xid(*device.xid_errors));
  }
}

}  // namespace

void put_dcgm_readings(Text& text, const Snapshot& snapshot, const std::string& hostname) {
  for (const Row& row : catalog()) {
    if (in_dcgm(row)) put_row(text, snapshot, row, hostname);
  }
  put_xids(text, snapshot, hostname);
}

}  // namespace gpuyard::metrics
