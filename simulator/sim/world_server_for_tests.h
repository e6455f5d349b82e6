// A world server without its process, for the tests of its commands. Part of no library.
#pragma once

#include <string>

#include "base/proc_stat.h"
#include "gpu/nvml/abi.h"
#include "sim/world_for_tests.h"
#include "sim/world_reader.h"
#include "sim/world_server.h"

namespace gpuyard::sim {

inline constexpr Peer kOwner{.pid = 11, .uid = 0, .is_owner = true};
inline constexpr Peer kStranger{.pid = 22, .uid = 1234, .is_owner = false};
// A world server without a process: its commands and what readers then see.
class WorldServerTest : public ::testing::Test {
 protected:
  explicit WorldServerTest(SetterAccess setters = SetterAccess::owner)
      : server_(make_server(setters)), reader_(*WorldReader::open(directory_.path())) {}

  Reply execute(Command command, const Peer& peer = kOwner) {
    return server_.execute(command, peer);
  }
  std::int32_t set(WriteKind setting, std::uint64_t value, const Peer& peer = kOwner,
                   std::uint32_t gpu = 0) {
    Command command{.verb = Verb::set, .gpu = gpu};
    command.write = {.kind = setting, .gpu = gpu, .values = {value, 0}};
    return execute(command, peer).nvml_code;
  }
  Reply attach(std::uint32_t gpu, pid_t pid, std::uint64_t memory = kGiB,
               std::uint32_t permille = 500) {
    Command command{.verb = Verb::attach, .gpu = gpu};
    command.process = {.pid = static_cast<std::uint32_t>(pid),
                       .memory_bytes = memory,
                       .start_time = process_start_time(pid).value_or(0),
                       .load_permille = permille};
    return execute(command);
  }
  Reply synthetic(std::uint32_t gpu, std::uint64_t count) {
    Command command{.verb = Verb::set_synthetic, .gpu = gpu};
    command.process = {.memory_bytes = 1 << 20, .load_permille = 1};
    command.count = count;
    return execute(command);
  }
  std::vector<ProcessUse> processes(std::uint32_t gpu) const {
    return *reader_.processes(gpu, *reader_.record(gpu));
  }

  ScratchDirectory directory_;
  WorldServer server_;
  WorldReader reader_;

 private:
  WorldServer make_server(SetterAccess setters) const {
    World world = make_world(*find_model("h100"), 3, {});
    world.setters = setters;
    auto writer = WorldWriter::create(directory_.path(), world);
    return {std::move(world), *std::move(writer), *ProcessExitMonitor::create()};
  }
};

}  // namespace gpuyard::sim
