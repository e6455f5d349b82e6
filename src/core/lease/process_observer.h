// The queries of leases about processes: which are there, which GPU each uses, and for which lease.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "core/lease/lease.h"
#include "gpu/device/device.h"

namespace gpuyard::lease {

// A process. `fd` becomes readable when it is gone, and never names another one.
struct ProcessIdentity {
  ProcessKey key;
  std::uint32_t uid = 0;     // the effective one
  std::uint32_t parent = 0;  // pid
  std::string command = {};  // at most 15 bytes
  std::shared_ptr<const UniqueFd> fd = {};
};

// A lease whose processes are observed.
struct ObservedLease {
  std::string lease;
  std::uint32_t uid = 0;
  std::vector<DeviceId> gpus = {};
  std::vector<ProcessKey> processes = {};  // known to be its own; their descendants are, too
  // Every process of its user on its GPUs counts as its own.
  bool whole_user = false;
  // Every process on its GPUs counts as its own, of any user: a pod's processes have any uid.
  bool whole_gpu = false;
};

// A process on a GPU, as the driver lists it.
struct ObservedProcess {
  enum class Attribution : std::uint8_t {
    member,    // of the lease that has the GPU
    outsider,  // of no lease that has the GPU: known, and named
    unknown,   // its owner cannot be seen: another PID namespace
  };
  BOOST_DESCRIBE_NESTED_ENUM(Attribution, member, outsider, unknown)
  std::uint32_t pid = 0;
  Attribution attribution = Attribution::unknown;
  std::optional<TimePoint> started = {};  // with the pid this names one process
  std::string lease = {};                 // if it is a member
  std::uint32_t uid = 0;                  // unless it is unknown
  std::string command = {};
  std::optional<std::int64_t> memory_bytes = {};
  bool in_job = false;  // its control group is of a job or pod, which may have no lease
  bool in_container = false;

  friend bool operator==(const ObservedProcess&, const ObservedProcess&) = default;
};

// A process that runs and did not get a signal, and why.
struct SignalFailure {
  ProcessKey process;
  Error error;
};

struct Observation {
  TimePoint taken_at;  // before the first query was made
  // Compute processes by GPU. Empty: the GPU's list cannot be had now, which does not mean "none".
  std::map<DeviceId, std::optional<std::vector<ObservedProcess>>> processes_by_gpu = {};
  // Every living process of each observed lease, on a GPU or not.
  std::map<std::string, std::vector<ProcessKey>> alive_by_lease = {};
  // The processes among these that belong to it only through their container, for as long as its
  // first process lives.
  std::map<std::string, std::vector<ProcessKey>> by_container = {};
  std::map<DeviceId, std::optional<std::int64_t>> used_bytes = {};  // drawing excluded

  // Whether any list could be had.
  bool has_any_list() const {
    return std::ranges::any_of(processes_by_gpu,
                               [](const auto& one) { return one.second.has_value(); });
  }
};

// Thread: io; the work is done elsewhere. Every callback is called, and never inside the call it
// was given to.
class ProcessObserver {
 public:
  virtual ~ProcessObserver() = default;
  // Errc::not_found: there is no such process.
  virtual void identify(std::uint32_t pid,
                        std::function<void(Result<ProcessIdentity>)> on_identified) = 0;
  // `fresh`: queries the driver now; if false, uses its newest lists.
  virtual void observe(std::vector<ObservedLease>, std::vector<DeviceId> gpus, bool fresh,
                       std::function<void(Observation)> on_observed) = 0;
  // Sends the signal to each process that is still the same; with `only_uid`, only to that user's.
  // Reports those that did not get it. The kernel may refuse: see processes/identify.h.
  virtual void signal(std::vector<ProcessKey>, int number, std::optional<std::uint32_t> only_uid,
                      std::function<void(std::vector<SignalFailure>)> on_done) = 0;
};

}  // namespace gpuyard::lease
