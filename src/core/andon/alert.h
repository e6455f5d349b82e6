// An alert as the daemon keeps it: one time that one rule fired for one GPU, or for the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>
#include <boost/describe/enum.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "gpuyard/andon.h"

namespace gpuyard::andon {

enum class State : std::uint8_t {
  firing,
  resolved,
};
BOOST_DESCRIBE_ENUM(State, firing, resolved)

struct Acknowledgement {
  std::string by;
  std::string note;
  WallTime at{};

  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

struct Alert {
  std::uint64_t number = 0;  // from 1; no two ever have the same
  std::string rule;
  DeviceId gpu;  // empty: the machine. With `rule` what it is, whatever its values are
  std::optional<std::uint32_t> index = {};  // of the GPU, when it was seen last
  std::string gpu_name = {};
  std::string pci_address = {};
  State state = State::firing;
  int severity = 0;  // by its value now
  double value = 0;
  std::string message = {};
  std::string advice = {};
  std::optional<std::uint32_t> xid = {};
  WallTime fired{};
  std::optional<WallTime> resolved = {};
  std::string ending = {};  // why, where it is not that it cleared
  std::optional<Acknowledgement> acknowledged = {};
  // The highest severity that sinks were told of; nothing: none was.
  std::optional<int> told = {};
  std::vector<std::string> heard_by = {};  // sinks that hear of its end
  bool simulated = false;

  friend bool operator==(const Alert&, const Alert&) = default;
};

// As bad as it ever was told to be, or is.
int worst_severity(const Alert&);

// "thermal/GPU-5f3c...", "driver-down/node": the same each time this rule fires for this GPU.
std::string key_of(const Alert&);

// What is set of GPUs because of a rule is claimed under this name.
std::string owner_of_cap(std::string_view rule);
// The rule of such an owner; "" for others.
std::string_view rule_of_owner(std::string_view owner);

}  // namespace gpuyard::andon

namespace gpuyard {

// How bad things are, as numbers from 0 to 100: the one place of these formulas, for whoever raises
// alerts. Knows no GPU and no rule.

BOOST_DESCRIBE_ENUM(AlertLevel, info, warning, error, critical)

namespace andon {

// Whatever the numbers are, also infinite ones and NaN, the answer is within 0 and 100 and rises
// with the first of them.
int thermal_severity(double celsius, double threshold);
int memory_severity(double used_percent);
int power_severity(double percent_of_limit);
int idle_severity(double idle_secs, double timeout_secs);

AlertLevel level_of(int severity);

}  // namespace andon
}  // namespace gpuyard

namespace gpuyard::andon {

// Alerts that nobody is told of for a while: a GPU that is worked on, a rule that is known to trip.
// They are alerts all the same; what is done about them is done.

struct Silence {
  std::string id;
  std::string rule = {};  // empty: any
  DeviceId gpu = {};      // empty: any, and the machine
  std::string by;
  std::string comment;
  WallTime since{};
  WallTime until{};

  bool covers(const Alert&) const;

  friend bool operator==(const Silence&, const Silence&) = default;
};

class SilenceBook {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr Duration kLongest = std::chrono::hours(24 * 30);

  // Ends after what is left of it now: a wall clock that is set later changes nothing.
  void put(Silence, TimePoint now, WallTime wall);
  bool remove(const std::string& id) { return book_.erase(id) > 0; }
  // Those whose time is over.
  std::vector<std::string> expire(TimePoint now);

  bool covers(const Alert&) const;
  std::vector<Silence> all() const;
  std::size_t size() const { return book_.size(); }

 private:
  struct Silenced {
    Silence silence;
    TimePoint until;
  };
  std::map<std::string, Silenced> book_;
};

// What must be known again of alerts after the daemon was killed, and who keeps it.

// What one sink is to be told once, until it has taken it.
struct Outgoing {
  std::string id;           // the same at each try, and after a restart
  std::string sink;         // by its name
  std::string body;         // for whoever delivers it
  std::uint64_t order = 0;  // what was to be said first has the lower number

  friend bool operator==(const Outgoing&, const Outgoing&) = default;
};

// All of it is kept, or nothing.
struct AlertEntry {
  bool everything = false;         // what was kept of firing ones, silences and outgoing goes first
  std::vector<Alert> alerts = {};  // in the place of what was kept of them
  std::vector<Silence> silences = {};
  std::vector<std::string> unsilenced = {};  // ids
  std::vector<Outgoing> outgoing = {};
  std::vector<std::string> delivered = {};  // ids of what is not outgoing any more

  bool empty() const {
    return alerts.empty() && silences.empty() && unsilenced.empty() && outgoing.empty() &&
           delivered.empty();
  }
};

struct Kept {
  std::vector<Alert> firing;
  std::vector<Silence> silences;
  std::vector<Outgoing> outgoing;  // in the order in which they were asked to be kept
  std::uint64_t last_number = 0;   // of an alert, ever
};

struct HistoryQuestion {
  std::string rule = {};                     // empty: any
  std::string gpus = {};                     // their ids with commas; empty: any
  std::optional<std::uint64_t> before = {};  // numbers below this one
  std::int64_t limit = 100;
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first, and
// is on the disk - synced - when it is told as kept. False, and nothing happens: too much waits
// already. A callback never runs inside the call it was given to.
class AlertArchive {
 public:
  using Saved = std::function<void(const Result<void>&)>;

  virtual ~AlertArchive() = default;
  virtual bool load(std::function<void(Result<Kept>)> loaded) = 0;
  virtual bool save(AlertEntry, Saved kept) = 0;
  // Firing ones and those that are over, the newest first.
  virtual bool history(HistoryQuestion, std::function<void(Result<std::vector<Alert>>)>) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  // So many that are over are kept.
  static constexpr std::int64_t kAlertsKept = 10'000;
};

}  // namespace gpuyard::andon
