// Where a reading verb gets its answers: the daemon, or the GPUs themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/metric.h"
#include "http/endpoint.h"
#include "library/driver_source.h"
#include "protocol/energy.h"
#include "protocol/resources.h"

namespace gpuyard::client {

// Whether the processes are to be looked up, or only counted. Looking up the name of a user may
// take a while.
enum class Owners { not_needed, looked_up };

// GPUs whose energy is being measured, until end() or its own end.
class Measuring {
 public:
  virtual ~Measuring() = default;
  virtual Result<protocol::EnergyWindow> end() = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  // What `wanted` fills is as fresh as the source has it. The local driver is asked for nothing
  // else (all of it takes it 40 ms and more); a daemon always tells everything, and whose processes
  // it lists.
  virtual Result<protocol::Snapshot> snapshot(ProbeSet wanted, Owners) = 0;
  // Who uses one of the GPUs in the last snapshot() with owners, with the arguments that this user
  // may see.
  virtual Result<protocol::DeviceProcesses> processes(std::uint32_t index) = 0;
  virtual Result<protocol::DriverInfo> driver() = 0;
  // Whether the GPUs are simulated.
  virtual Result<bool> simulated() = 0;
  // What the GPUs used so far. Errc::unavailable: nobody has kept the books.
  virtual Result<protocol::EnergyReport> energy() = 0;
  // Ends before its source does.
  virtual Result<std::unique_ptr<Measuring>> measure(const protocol::EnergyWindowWish&) = 0;
  // "the daemon at /run/gpuyard/gpuyard.sock", "the driver"
  virtual std::string name() const = 0;
};

struct SourceOptions {
  std::string socket;                // named by the user: this daemon or an error
  std::vector<std::string> sockets;  // else the first of these that answers
  bool local = false;                // never a daemon
  library::DriverChoice driver;      // the local one
};

// The first of `sockets` where a daemon listens that we may believe; nothing: none does.
std::optional<http::Endpoint> find_daemon(const std::vector<std::string>& sockets);

// A daemon that is there but silent for 2 s is an error (timed_out), never a reason to go around
// it.
Result<std::unique_ptr<Source>> open_source(const SourceOptions&);

}  // namespace gpuyard::client
