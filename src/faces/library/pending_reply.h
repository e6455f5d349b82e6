// Where an answer waits for whoever asked; nobody may be there any more when it comes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "library/control.h"

namespace gpuyard::library {

struct PendingReply::Slot {
  // On the GPU's worker.
  void deliver(const CommandReply&);

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<CommandReply> reply;
  bool taken = false;
  bool left = false;  // nobody waits any more
};

}  // namespace gpuyard::library
