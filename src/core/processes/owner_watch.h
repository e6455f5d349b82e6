// Keeps the book of who uses the GPUs: from the process lists in snapshots, through a worker that
// reads /proc.
#pragma once

#include <memory>
#include <string>

#include "base/worker.h"
#include "device/snapshot.h"
#include "processes/owners.h"

namespace gpuyard::processes {

// Which processes the GPUs' lists name, and when the newest list was made that names each.
Owners::Listed listed_in(const Snapshot&);

// On the io thread. The worker may be slow or stuck: then the book says "not looked up yet" of what
// is new, and keeps what it knew.
class OwnerWatch {
 public:
  enum class Listed { now, in_a_recording };
  // The worker outlives this, and runs nothing afterwards.
  OwnerWatch(Worker&, std::string proc_root, Listed);
  ~OwnerWatch();

  void on_snapshot(const Snapshot&);
  const ProcessBook& book() const { return owners_; }

 private:
  struct Desk;  // what the jobs stand on

  void ask_facts();
  void ask_names();

  Worker& worker_;
  const Listed when_;
  std::shared_ptr<Desk> desk_;
  Owners owners_;
  Owners::Listed listed_;
  bool simulated_ = false;
  bool wanted_ = false;       // something is to be found out
  bool facts_asked_ = false;  // and nothing was heard yet
  bool names_asked_ = false;
};

}  // namespace gpuyard::processes
