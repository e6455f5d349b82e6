// Where a reading verb gets its answers: the daemon, or the GPUs themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "library/nvml_source.h"
#include "protocol/resources.h"

namespace gpuyard::client {

class Source {
 public:
  virtual ~Source() = default;
  virtual Result<protocol::Snapshot> snapshot() = 0;
  virtual Result<protocol::DriverInfo> driver() = 0;
  // Whether the GPUs are simulated.
  virtual Result<bool> simulated() = 0;
};

struct SourceOptions {
  std::string socket;                // named by the user: this daemon or an error
  std::vector<std::string> sockets;  // else the first of these that answers
  bool local = false;                // never a daemon
  library::NvmlChoice nvml;          // of the local driver
};

// A daemon that is there but silent for 2 s is an error (timed_out), never a reason to go around
// it.
Result<std::unique_ptr<Source>> open_source(const SourceOptions&);

}  // namespace gpuyard::client
