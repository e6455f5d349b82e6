#include "cli/reading.h"

#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "base/files.h"
#include "cli/terminal.h"
#include "config/config.h"
#include "sim/world_directory.h"

namespace gpuyard::cli {

Result<PrivateWorld> PrivateWorld::start(int gpus) {
  std::string directory = "/tmp/gpuyard-world-XXXXXX";  // nobody else can have prepared it
  if (::mkdtemp(directory.data()) == nullptr) return system_error("creating " + directory);
  sim::WorldOptions options;
  options.directory = directory;
  options.gpus = gpus;
  auto world = sim::start_keeper(options, sim::KeeperLifetime::with_creator);
  if (!world) return std::move(world).error().in("simulating");
  ::setenv("GPUYARD_SIM_WORLD", directory.c_str(), 1);
  return PrivateWorld(std::move(directory), *std::move(world));
}

PrivateWorld::~PrivateWorld() {
  if (directory_.empty()) return;
  static_cast<void>(sim::stop_keeper(directory_).ok());  // it may have ended by itself
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Result<OpenSource> open_source(const SourceFlags& flags) {
  OpenSource open;
  if (flags.simulate) {
    auto world = PrivateWorld::start(*flags.simulate);
    if (!world) return std::move(world).error();
    open.world.emplace(*std::move(world));
  }
  const auto environment = config::Environment::of_process();
  client::SourceOptions options;
  options.socket = flags.socket.empty() ? environment.gpuyard_socket : flags.socket;
  options.sockets = config::sockets_to_try(environment);
  options.local = flags.local || flags.simulate || !flags.nvml.empty();
  options.nvml = library::choose_nvml(flags.nvml, sim::simulated_nvml_path());
  auto source = client::open_source(options);
  if (!source) return std::move(source).error();
  open.source = *std::move(source);
  return open;
}

int complain_about_source(const Error& error) {
  if (error.code != Errc::unavailable) return complain(error);
  return complain(
      error,
      "  Is the NVIDIA driver installed and loaded? A library in an unusual place is named "
      "with --nvml PATH;\n  to look around without a GPU, try: gpuyard devices --simulate 4");
}

}  // namespace gpuyard::cli
