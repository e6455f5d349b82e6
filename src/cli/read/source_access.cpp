#include "cli/read/source_access.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "faces/client/local_daemon.h"
#include "gpu/device/device.h"
#include "gpu/device/error.h"
#include "sim/demo.h"
#include "sim/world_file.h"

namespace gpuyard::cli {

namespace {

// Returns TMPDIR if it is short enough for the name of a Unix socket in it.
std::string worlds_directory() {
  constexpr std::size_t kMaxPathLength = 60;
  std::error_code failed;
  std::string place = std::filesystem::temp_directory_path(failed).string();
  return failed || place.size() > kMaxPathLength ? "/tmp" : place;
}

// The error of a driver of this machine, with what is known of such errors.
Error explain_error(Error error) {
  if (const auto world = environment_variable("GPUYARD_SIM_WORLD"); !world.empty()) {
    error.cause = fmt::format("GPUYARD_SIM_WORLD points to the simulated world in {}", world);
    error.hint = "gpuyard sim status";
    return error;
  }
  const std::string_view reason = init_failure_reason(error);
  const bool library = is_library_error(reason);
  if (!library) error.cause = driver_advice(reason, "");
  // Another reason names the library, with the path that was set for it.
  if (reason.find("Shared Library Not Found") != reason.npos) {
    error.cause =
        "libnvidia-ml.so.1, part of the NVIDIA driver, is not in the loader's search path";
  }
  error.hint = std::string(library ? "ldconfig -p | grep nvidia-ml\n" : "") +
               "gpuyard doctor\n"
               "gpuyard devices --simulate 4  # works without a GPU";
  return error;
}

using protocol::Device;

bool matches_name(const Device& device, std::string_view name) {
  if (name == std::to_string(device.index)) return true;
  if (!device.uuid.empty() && equals_ignoring_case(device.uuid, name)) return true;
  return !device.pci_address.empty() && device.pci_address == short_pci_address(name);
}

Error unknown_gpu_error(std::string_view name, std::size_t gpus, std::string_view words) {
  return {Errc::not_found,
          fmt::format("GPU \"{}\" not found; there {} {}, named by index, UUID or PCI address",
                      name, gpus == 1 ? "is" : "are", gpus),
          "", std::string("gpuyard devices").append(words)};
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::make() {
  std::string path = worlds_directory() + "/gpuyard-world-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return system_error("creating " + path);
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<PrivateWorld> PrivateWorld::start(int gpus, SimulatedLoad what) {
  auto directory = GPUYARD_TRY(TemporaryDirectory::make());
  sim::WorldOptions options{.directory = directory.path(), .gpus = gpus, .private_directory = true};
  if (what == SimulatedLoad::demo) sim::make_demo(options);
  auto world = sim::start_world(options, sim::WorldLifetime::with_creator);
  if (!world) return std::move(world).error().in("simulating");
  ::setenv("GPUYARD_SIM_WORLD", directory.path().c_str(), 1);
  return PrivateWorld(std::move(directory), *std::move(world));
}

SourceOptions source_options(const SourceFlags& flags) {
  const auto environment = Environment::current();
  SourceOptions options;
  options.socket = flags.socket.empty() ? environment.gpuyard_socket : flags.socket;
  if (flags.socket.empty()) options.named_by = "GPUYARD_SOCKET";
  options.sockets = client::trusted_sockets(environment);
  options.keys = client::credentials_of(environment);
  options.keys.ssh.with_parent = true;
  options.local = flags.local || flags.simulate || flags.replay || !flags.nvml.empty();
  options.driver =
      library::choose_nvml(flags.simulate ? "" : flags.nvml, sim::simulated_nvml_path());
  options.driver.replay = flags.replay;
  return options;
}

Result<OpenSource> open_source(const SourceFlags& flags, SimulatedLoad what) {
  OpenSource open;
  if (flags.simulate) {
    auto world = GPUYARD_TRY(PrivateWorld::start(*flags.simulate, what));
    open.world.emplace(std::move(world));
  }
  auto source = GPUYARD_TRY(open_source(source_options(flags)));
  open.source = std::move(source);
  return open;
}

Result<http::Endpoint> require_daemon(const std::string& socket, std::string_view what) {
  SourceFlags flags;
  flags.socket = socket;
  const SourceOptions options = source_options(flags);
  if (!options.socket.empty()) return resolve_daemon(options);
  if (auto found = client::find_daemon(options.sockets)) return *std::move(found);
  if (what.empty()) {
    return client::no_daemon_error(options.sockets, "no daemon is running on this machine");
  }
  return client::no_daemon_error(
      options.sockets, fmt::format("{} a daemon, and none is running on this machine", what));
}

Printable host_heading(const std::string& socket) {
  return client::is_remote_address(socket) ? formatted("On {}:\n", socket) : "";
}

std::string source_words(const SourceFlags& flags) {
  if (flags.simulate) return fmt::format(" --simulate {}", *flags.simulate);
  if (!flags.nvml.empty()) return " --nvml " + quote_shell_word(flags.nvml);
  if (flags.local) return " --local";
  if (flags.socket.empty()) return "";
  return fmt::format(" {} {}", client::is_remote_address(flags.socket) ? "-H" : "--socket",
                     quote_shell_word(flags.socket));
}

Result<protocol::Snapshot> read_gpus(Source& source, std::string_view gpus, ProbeSet wanted,
                                     OwnerLookup owners, std::string_view words) {
  auto snapshot = source.snapshot(wanted, owners);
  if (!snapshot) return snapshot;
  if (!snapshot->driver_initialised) {
    const std::string source_name = source.name();
    // Advice on drivers is about this machine's.
    return client::mentions_remote_address(source_name) ? no_driver_error(*snapshot).in(source_name)
                                                        : no_driver_error(*snapshot);
  }
  if (snapshot->devices.empty()) {
    return Error{Errc::unavailable, "the driver is loaded but reports no GPUs", "",
                 "gpuyard doctor"};
  }
  if (gpus.empty()) return snapshot;
  GPUYARD_TRY(keep_only(*snapshot, gpus, words));
  return snapshot;
}

Error no_driver_error(const protocol::Snapshot& snapshot) {
  return init_error(snapshot.driver_error.value_or("unknown reason"));
}

// A daemon names the driver's reason alone, without the words before it.
bool is_driver_error(const Error& error) {
  const std::string_view reason = init_failure_reason(error);
  return reason != error.message || !driver_advice(reason, "").empty();
}

int print_source_error(const Error& error) {
  const bool of_driver_here = error.code == Errc::unavailable && is_driver_error(error) &&
                              !client::mentions_remote_address(error.message);
  return print_error(of_driver_here ? explain_error(error) : error);
}

Result<void> keep_only(protocol::Snapshot& snapshot, std::string_view names,
                       std::string_view words) {
  std::vector<Device> kept;
  for (const std::string& name : split(names, ',')) {
    const auto found = std::ranges::find_if(
        snapshot.devices, [&](const Device& device) { return matches_name(device, name); });
    if (found == snapshot.devices.end()) {
      return unknown_gpu_error(name, snapshot.devices.size(), words);
    }
    kept.push_back(*found);
  }
  snapshot.devices = std::move(kept);
  return {};
}

}  // namespace gpuyard::cli
