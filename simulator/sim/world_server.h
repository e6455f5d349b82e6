// A world server without its process: the world, its file, and the commands that change them.
#pragma once

#include "sim/command_server.h"
#include "sim/process_exit_monitor.h"
#include "sim/scenario.h"
#include "sim/world_client.h"
#include "sim/world_writer.h"

namespace gpuyard::sim {

// One thread.
class WorldServer {
 public:
  WorldServer(World world, WorldWriter writer, ProcessExitMonitor exit_monitor);

  // Executes a scenario's commands when they are due, as if the owner had sent them.
  void set_timeline(std::vector<TimedCommand> timeline);

  // Advances the world by this many steps of real time, scaled by its speed, and publishes it. A
  // stepped world is only published, to show that it is alive.
  void advance(std::uint64_t steps);

  // Executes a command; it is in force for every reader when this returns. Any user may send a
  // setter; any other command must come from an owner.
  Reply execute(const Command&, const Peer&);

  // Readable when a process on a GPU has died; remove_exited() then removes it from the GPU.
  int exit_fd() const { return exit_monitor_.fd(); }
  void remove_exited();

  const World& world() const { return world_; }
  bool is_stopping() const { return stopping_; }
  bool is_reachable() const { return writer_.is_linked(); }

 private:
  Reply set(const Command&);
  bool can_set() const;
  Result<void> execute_checked(const Command&);
  Result<void> change_world(const Command&);
  Result<void> change_all(const Command&);
  Result<void> change(std::uint32_t place, const Command&);
  Result<void> inject_all(Fault);
  Result<void> execute_step(std::uint64_t count);
  void run_steps(std::uint64_t steps);
  void run_due_commands();
  Result<void> attach(Gpu&, const ProcessRecord&);
  Result<void> set_synthetic(Gpu&, std::uint64_t count, const ProcessRecord& each);
  Result<void> add_ecc_errors(std::uint32_t place, const Command&);
  Result<void> put_processes(Gpu&, std::vector<ProcessRecord>);  // or leaves them unchanged
  Result<void> reset(std::uint32_t place, bool as_driver);
  Result<void> check_driver_reset() const;
  void log_write(const SettingWrite&, std::int32_t nvml_code);
  void log_driver_changes();
  void log_event(std::uint32_t place, std::uint64_t type, std::uint64_t data);

  World world_;
  WorldWriter writer_;
  ProcessExitMonitor exit_monitor_;
  Peer sender_;  // the sender of the current command; else own_peer()
  std::uint64_t logged_session_;
  bool logged_loaded_;
  std::vector<TimedCommand> timeline_;  // the first World::timeline_done are done
  double step_remainder_ = 0;           // the fraction of a step that is left over
  bool stopping_ = false;
};

}  // namespace gpuyard::sim
