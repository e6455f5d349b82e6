#include "sim_nvml/opened_driver.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "sim_nvml/device_call.h"

namespace gpuyard::sim_nvml {
namespace {

using sim::Call;
using sim::CallFaults;

// Identity calls work even while a GPU waits for its reset.
bool is_about_identity(Call call) {
  return call == Call::handle || call == Call::identity || call == Call::pci_info;
}

// Makes invalid places in the order harmless; no world server writes such an order.
sim::DriverRecord checked(sim::DriverRecord driver, std::uint32_t places) {
  driver.gpu_count = std::min({driver.gpu_count, places, sim::kMaxGpus});
  for (std::uint8_t& place : driver.order) {
    if (place >= places) place = 0;
  }
  return driver;
}

struct Branch {
  int driver;
  int cuda;
};

// The first driver branch of each CUDA version, as NVIDIA's release notes list them; the oldest
// stands for all before it.
constexpr std::array kBranches{
    Branch{450, 11000}, Branch{470, 11040}, Branch{510, 11060}, Branch{515, 11070},
    Branch{520, 11080}, Branch{525, 12000}, Branch{530, 12010}, Branch{535, 12020},
    Branch{545, 12030}, Branch{550, 12040}, Branch{555, 12050}, Branch{560, 12060},
    Branch{565, 12070}, Branch{570, 12080}, Branch{575, 12090}, Branch{580, 13000}};

}  // namespace

std::shared_ptr<const OpenedDriver> OpenedDriver::open(const std::string& directory,
                                                       nvml::ReturnCode& code) {
  code = nvml::kDriverNotLoaded;
  auto world = sim::WorldReader::open(directory, sim::OpenMode::driver);
  if (!world) return nullptr;
  const std::shared_ptr<OpenedDriver> driver(new OpenedDriver(*std::move(world), directory));
  // GPUs are looked up twice: the driver may be reloaded while read() waits for a fault.
  if (!driver->find_gpus()) return nullptr;
  code = driver->read();
  if (code != nvml::kSuccess) return nullptr;
  code = driver->find_gpus() ? nvml::kSuccess : nvml::kDriverNotLoaded;
  return code == nvml::kSuccess ? driver : nullptr;
}

bool OpenedDriver::find_gpus() {
  const auto now = world_.driver();
  if (!now) return false;
  initial_ = checked(*now, world_.gpu_count());
  for (std::uint32_t index = 0; index < initial_.gpu_count; ++index) {
    const auto record = world_.record(initial_.order[index]);
    if (record) plug_counts_[initial_.order[index]] = record->plug_count;
  }
  return true;
}

std::string_view OpenedDriver::version() const {
  return {initial_.version, ::strnlen(initial_.version, sizeof initial_.version)};
}

std::optional<std::uint32_t> OpenedDriver::index_of(std::uint32_t place) const {
  const auto end = initial_.order.begin() + initial_.gpu_count;
  const auto at = std::find(initial_.order.begin(), end, place);
  if (at == end) return std::nullopt;
  return static_cast<std::uint32_t>(at - initial_.order.begin());
}

nvml::ReturnCode OpenedDriver::check_state(const sim::DriverRecord& now) const {
  if (now.loaded == 0) return nvml::kDriverNotLoaded;
  return now.session != initial_.session ? nvml::kLibRmVersionMismatch : nvml::kSuccess;
}

nvml::ReturnCode OpenedDriver::check_state(std::uint32_t place, Call call,
                                           const sim::GpuRecord& now) const {
  const bool same_gpu = now.plugged != 0 && now.plug_count == plug_counts_[place];
  if (!same_gpu || now.fault.lost != 0) return nvml::kGpuIsLost;
  const bool waits_for_reset = now.fault.reset_required != 0 && !is_about_identity(call);
  return waits_for_reset ? nvml::kResetRequired : nvml::kSuccess;
}

nvml::ReturnCode OpenedDriver::read() const {
  sim::DriverRecord now;
  const auto refresh = [&] {
    const auto driver = world_.driver();
    if (!driver) return nvml::kDriverNotLoaded;  // no world server simulates it any more
    now = *driver;
    return check_state(now);
  };
  if (const auto code = refresh(); code != nvml::kSuccess) return code;
  if (!sim::fault_of(now.calls, Call::driver)) return nvml::kSuccess;
  const auto calls = [&] {
    const auto driver = world_.driver();
    return driver ? std::optional(driver->calls) : std::nullopt;
  };
  const auto code = apply_fault(calls, kDriverPlace, Call::driver);
  return code != nvml::kSuccess ? code : refresh();
}

// The driver's faults come first: every call reaches its GPU through the driver.
nvml::ReturnCode OpenedDriver::read(std::uint32_t place, Call call, sim::RecordPair& now) const {
  const auto refresh = [&] {
    const auto moment = world_.record_pair(place);
    if (!moment) return nvml::kDriverNotLoaded;
    now = *moment;
    return check_state(now.driver);
  };
  const auto calls_of = [&](auto&& part) -> FaultSource {
    return [this, place, part]() -> std::optional<CallFaults> {
      const auto moment = world_.record_pair(place);
      return moment ? std::optional(part(*moment)) : std::nullopt;
    };
  };
  auto code = refresh();
  if (code == nvml::kSuccess && sim::fault_of(now.driver.calls, call)) {
    code = apply_fault(calls_of([](const sim::RecordPair& m) { return m.driver.calls; }),
                       kDriverPlace, call);
    if (code == nvml::kSuccess) code = refresh();
  }
  if (code == nvml::kSuccess) code = check_state(place, call, now.gpu);
  if (code == nvml::kSuccess && sim::fault_of(now.gpu.fault.calls, call)) {
    code = apply_fault(calls_of([](const sim::RecordPair& m) { return m.gpu.fault.calls; }), place,
                       call);
    if (code == nvml::kSuccess) code = refresh();
    if (code == nvml::kSuccess) code = check_state(place, call, now.gpu);
  }
  if (call != Call::events) wake_files_.wake(place);  // a wait for events touches no GPU
  return code;
}

int branch_of(std::string_view driver) {
  int number = 0;
  std::from_chars(driver.data(), driver.data() + driver.size(), number);
  return number;
}

int cuda_version_of(std::string_view driver) {
  const int number = branch_of(driver);
  int cuda = kBranches.front().cuda;
  for (const Branch& branch : kBranches) {
    if (number >= branch.driver) cuda = branch.cuda;
  }
  return cuda;
}

std::string nvml_version_of(std::string_view driver) {
  const std::size_t first = driver.find('.');
  const std::size_t second = first == driver.npos ? first : driver.find('.', first + 1);
  return std::to_string(cuda_version_of(driver) / 1000) + "." +
         std::string(driver.substr(0, second));
}

}  // namespace gpuyard::sim_nvml
