// The source of a verb's answers: the daemon, or the GPUs themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "faces/client/daemon_address.h"
#include "faces/library/driver_source.h"
#include "faces/protocol/energy.h"
#include "faces/protocol/resources.h"
#include "gpu/device/metric.h"
#include "io/http/endpoint.h"

namespace gpuyard::cli {

// Whether processes are looked up, or only counted. Looking up a user's name may take a while.
enum class OwnerLookup { not_needed, looked_up };

// Measures the energy of GPUs until finish() or the destructor.
class SourceMeasurement {
 public:
  virtual ~SourceMeasurement() = default;
  virtual Result<protocol::EnergyWindow> finish() = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  // Returns what `wanted` fills, as fresh as the source has it. The local driver is asked for
  // nothing else (everything takes it 40 ms and more). A daemon always returns everything, owners
  // included.
  virtual Result<protocol::Snapshot> snapshot(ProbeSet wanted, OwnerLookup) = 0;
  // Returns the processes of one GPU of the last snapshot() with owners, with the arguments that
  // this user may see.
  virtual Result<protocol::DeviceProcesses> processes(std::uint32_t index) = 0;
  virtual Result<protocol::DriverInfo> driver() = 0;
  // Whether the GPUs are simulated.
  virtual Result<bool> simulated() = 0;
  // Why no GPU can be used although there is a driver; nothing if one can, or if that is not known
  // after one query.
  virtual std::optional<Error> unusable_error() { return std::nullopt; }
  // Returns what the GPUs have used so far. Errc::unavailable: nothing has counted it.
  virtual Result<protocol::EnergyReport> energy() = 0;
  // The result must end before the source.
  virtual Result<std::unique_ptr<SourceMeasurement>> begin_measurement(
      const protocol::EnergyWindowRequest&) = 0;
  // The daemon that it asks; null: it asks none.
  virtual const http::Endpoint* daemon() const { return nullptr; }
  // "the daemon at /run/gpuyard/gpuyard.sock", "the driver"
  virtual std::string name() const = 0;
};

struct SourceOptions {
  std::string socket;                 // named by the user, or an ssh URL: this daemon or an error
  std::vector<std::string> sockets;   // else the first of these that answers
  bool local = false;                 // never a daemon
  library::DriverChoice driver;       // for the local GPUs
  client::Credentials keys = {};      // for a daemon elsewhere
  std::string named_by = "--socket";  // or the variable that names `socket`
};

// Returns the daemon that `socket` names. Errors name what named it.
Result<http::Endpoint> resolve_daemon(const SourceOptions&);

// A daemon that is silent for 2 s is an error (timed_out). The local driver does not replace it.
Result<std::unique_ptr<Source>> open_source(const SourceOptions&);

}  // namespace gpuyard::cli
