// The world, its file, and what commands do to them: a keeper without its process.
#pragma once

#include "sim/command_server.h"
#include "sim/keeper.h"
#include "sim/process_watch.h"
#include "sim/scenario.h"
#include "sim/world_writer.h"

namespace gpuyard::sim {

// One thread.
class WorldKeeper {
 public:
  WorldKeeper(World world, WorldWriter writer, ProcessWatch watch);

  // From now on, what a scenario says happens when it is due, as if its owner had asked for it.
  void follow(std::vector<TimedCommand> timeline);

  // Moves the world on by what so many steps of real time are in its own, and publishes it. A
  // stepped world only shows that it is alive.
  void advance(std::uint64_t steps);

  // What it asks is in force for every reader when this returns. Only setters are for everybody to
  // ask; any other command comes from an owner.
  Reply execute(const Command&, const Peer&);

  // Readable once a process on a GPU has died; remove_dead() then takes it off.
  int watch_fd() const { return watch_.fd(); }
  void remove_dead();

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
  Result<void> put_processes(Gpu&, std::vector<ProcessRecord>);  // or leaves them as they are
  Result<void> reset(std::uint32_t place, bool as_driver);
  Result<void> check_reset_of_driver() const;
  void log_write(const SettingWrite&, std::int32_t nvml_code);
  void log_driver_changes();
  void log_event(std::uint32_t place, std::uint64_t type, std::uint64_t data);

  World world_;
  WorldWriter writer_;
  ProcessWatch watch_;
  Peer asking_;  // whose command it is; between commands the world's own
  std::uint64_t logged_session_;
  bool logged_loaded_;
  std::vector<TimedCommand> timeline_;  // of it, timeline_done are done
  double owed_steps_ = 0;               // of a world whose speed is no whole number
  bool stopping_ = false;
};

}  // namespace gpuyard::sim
