// The questions of leases about processes: which are there, which GPU each uses, and for which
// lease.
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
struct Identity {
  Process process;
  std::uint32_t uid = 0;     // the effective one
  std::uint32_t parent = 0;  // pid
  std::string command = {};  // at most 15 bytes
  std::shared_ptr<const UniqueFd> fd = {};
};

// A lease whose processes are looked for.
struct Suspect {
  std::string lease;
  std::uint32_t uid = 0;
  std::vector<DeviceId> gpus = {};
  std::vector<Process> processes = {};  // known to be its own; their descendants are, too
  // Every process of its user on its GPUs counts as its own.
  bool whole_user = false;
};

// A process on a GPU, as the driver lists it.
struct Seen {
  enum class Verdict : std::uint8_t {
    member,    // of the lease that has the GPU
    outsider,  // of no lease that has the GPU: known, and named
    unknown,   // its owner cannot be seen: another PID namespace
  };
  BOOST_DESCRIBE_NESTED_ENUM(Verdict, member, outsider, unknown)
  std::uint32_t pid = 0;
  Verdict verdict = Verdict::unknown;
  std::optional<TimePoint> started = {};  // with the pid this names one process
  std::string lease = {};                 // if it is a member
  std::uint32_t uid = 0;                  // unless it is unknown
  std::string command = {};
  std::optional<std::int64_t> memory_bytes = {};

  friend bool operator==(const Seen&, const Seen&) = default;
};

// A process that runs and did not get a signal, and why.
struct Unsignalled {
  Process process;
  Error why;
};

struct Sight {
  TimePoint taken;  // before the first question was asked
  // Compute processes by GPU. Empty: the GPU's list cannot be had now, which does not mean "none".
  std::map<DeviceId, std::optional<std::vector<Seen>>> on_gpus = {};
  // Every living process of each suspect, on a GPU or not.
  std::map<std::string, std::vector<Process>> alive = {};
  // The processes among these that belong to it only through their container, for as long as its
  // first process lives.
  std::map<std::string, std::vector<Process>> by_container = {};
  std::map<DeviceId, std::optional<std::int64_t>> used_bytes = {};  // drawing excluded

  // Whether any list could be had.
  bool lists_any() const {
    return std::ranges::any_of(on_gpus, [](const auto& one) { return one.second.has_value(); });
  }
};

// Lives on the io thread, and does its work elsewhere. Every callback is called, and never inside
// the call it was given to.
class Observer {
 public:
  virtual ~Observer() = default;
  // Errc::not_found: there is no such process.
  virtual void identify(std::uint32_t pid, std::function<void(Result<Identity>)> found) = 0;
  // `fresh`: asks the driver now; if false, uses its newest lists.
  virtual void look(std::vector<Suspect>, std::vector<DeviceId> gpus, bool fresh,
                    std::function<void(Sight)> seen) = 0;
  // Sends the signal to each process that is still the same; with `only_of`, only to that user's.
  // Answers with those that did not get it. The kernel may refuse: see processes/identify.h.
  virtual void signal(std::vector<Process>, int number, std::optional<std::uint32_t> only_of,
                      std::function<void(std::vector<Unsignalled>)> done) = 0;
};

}  // namespace gpuyard::lease
