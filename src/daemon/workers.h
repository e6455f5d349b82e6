// The daemon's threads beside the loop, each with tasks that may wait for something of its own.
#pragma once

#include "base/loop.h"
#include "base/worker.h"

namespace gpuyard::daemon {

struct Workers {
  explicit Workers(Loop& loop)
      : query(loop, "query"),
        names(loop, "names"),
        store(loop, "store"),
        lease(loop, "lease"),
        usage(loop, "usage") {}

  ThreadWorker query;  // reads the disk and /proc for requests
  ThreadWorker names;  // asks the name service, which may be slow
  ThreadWorker store;  // writes state.db
  ThreadWorker lease;  // looks for the processes of leases
  ThreadWorker usage;  // reads and writes usage.db
};

}  // namespace gpuyard::daemon
