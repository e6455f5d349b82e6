// A keeper without its process: the world, its file, and the commands that change them.
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
  WorldServer(World world, WorldWriter writer, ProcessExitMonitor watch);

  // Executes a scenario's commands when they are due, as if the owner had sent them.
  void follow(std::vector<TimedCommand> timeline);

  // Advances the world by this many steps of real time, scaled by its speed, and publishes it. A
  // stepped world is only published, to show that it is alive.
  void advance(std::uint64_t steps);

  // Executes a command; it is in force for every reader when this returns. Any user may send a
  // setter; any other command must come from an owner.
  Reply execute(const Command&, const Peer&);

  // Readable when a process on a GPU has died; remove_dead() then removes it from the GPU.
  int watch_fd() const { return watch_.fd(); }
  void remove_dead();

  const World& world() const { return world_; }
  bool stopping() const { return stopping_; }
  bool can_be_found() const { return writer_.still_named(); }

 private:
  Reply set(const Command&);
  bool may_set() const;
  Result<void> obey(const Command&);
  Result<void> change_world(const Command&);
  Result<void> change_each(const Command&);
  Result<void> change(std::uint32_t place, const Command&);
  Result<void> inject_everywhere(Fault);
  Result<void> take_steps(std::uint64_t count);
  void move_on(std::uint64_t steps);
  void do_what_is_due();
  Result<void> attach(Gpu&, const ProcessRecord&);
  Result<void> set_synthetic(Gpu&, std::uint64_t count, const ProcessRecord& each);
  Result<void> add_ecc_errors(std::uint32_t place, const Command&);
  Result<void> put_processes(Gpu&, std::vector<ProcessRecord>);  // or leaves them unchanged
  Result<void> reset(std::uint32_t place, bool as_driver);
  Result<void> check_reset_of_driver() const;
  void log_write(const SettingWrite&, std::int32_t nvml_code);
  void log_driver_changes();
  void log_event(std::uint32_t place, std::uint64_t type, std::uint64_t data);

  World world_;
  WorldWriter writer_;
  ProcessExitMonitor watch_;
  Peer asking_;  // the sender of the current command; else own_peer()
  std::uint64_t logged_session_;
  bool logged_loaded_;
  std::vector<TimedCommand> timeline_;  // the first World::timeline_done are done
  double owed_steps_ = 0;               // the fraction of a step that is left over
  bool stopping_ = false;
};

}  // namespace gpuyard::sim
