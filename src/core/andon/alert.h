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
#include "base/requester.h"
#include "base/result.h"
#include "gpu/device/device.h"
#include "gpuyard/andon.h"

namespace gpuyard::andon {

enum class AlertState : std::uint8_t {
  firing,
  resolved,
};
BOOST_DESCRIBE_ENUM(AlertState, firing, resolved)

struct Acknowledgement {
  std::string by;
  std::string note;
  WallTime at{};

  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

struct Alert {
  std::uint64_t number = 0;  // from 1; no number is used twice
  std::string rule;
  DeviceId gpu;  // empty: the machine. `rule` and `gpu` identify an alert, not its values
  std::optional<std::uint32_t> index = {};  // of the GPU, when it was last seen
  std::string gpu_name = {};
  std::string pci_address = {};
  AlertState state = AlertState::firing;
  int severity = 0;  // of its current value
  double value = 0;
  std::string message = {};
  std::string advice = {};
  std::optional<std::uint32_t> xid = {};
  // The driver's text about that Xid; on the disk only as part of `message`.
  std::string driver_text = {};
  WallTime fired{};
  std::optional<WallTime> resolved = {};
  std::string end_reason = {};  // why it ended, unless it cleared
  std::optional<Acknowledgement> acknowledged = {};
  // The highest severity that sinks were notified of; empty if none was.
  std::optional<int> notified_severity = {};
  std::vector<std::string> notified_sinks = {};  // sinks to notify of its end
  bool simulated = false;

  friend bool operator==(const Alert&, const Alert&) = default;
};

// Returns the highest severity that the alert has, or that sinks were notified of.
int worst_severity(const Alert&);

// Returns "thermal/GPU-5f3c..." or "driver-down/node": the same each time this rule fires for this
// GPU.
std::string key_of(const Alert&);

// Returns the owner under which a rule claims settings of GPUs.
std::string owner_of_cap(std::string_view rule);
// Returns the rule of such an owner, or "" for any other owner.
std::string_view rule_of_owner(std::string_view owner);

}  // namespace gpuyard::andon

namespace gpuyard {

// The severity of alerts, from 0 to 100. This is the one place of its formulas. Knows no GPU and no
// rule.

BOOST_DESCRIBE_ENUM(AlertLevel, info, warning, error, critical)

namespace andon {

// For all numbers, infinities and NaN included, the result is between 0 and 100 and rises with the
// first argument.
int thermal_severity(double celsius, double threshold);
int memory_severity(double used_percent);
int power_severity(double percent_of_limit);
int idle_severity(double idle_secs, double timeout_secs);

AlertLevel level_of(int severity);

}  // namespace andon
}  // namespace gpuyard

namespace gpuyard::andon {

// Silences: for a while nobody is notified of certain alerts, because a GPU is worked on or a rule
// is known to trip. The alerts exist all the same, and their actions are taken.

struct Silence {
  std::string id;
  std::string rule = {};  // empty: any
  DeviceId gpu = {};      // empty: any, and the machine
  std::string by;
  std::string comment;
  WallTime since{};
  WallTime until{};

  bool matches(const Alert&) const;

  friend bool operator==(const Silence&, const Silence&) = default;
};

class SilenceTable {
 public:
  static constexpr std::size_t kMaxSilences = 256;
  static constexpr std::size_t kReservedForAdmins = 64;  // of these
  static constexpr Duration kMaxDuration = std::chrono::hours(24 * 30);

  // The silence ends after the time that it has left at `wall`. Setting the wall clock later
  // changes nothing.
  void put(Silence, TimePoint now, WallTime wall);
  bool remove(const std::string& id) { return entries_.erase(id) > 0; }
  // Returns the id that is this name, or the only one that begins with it.
  std::optional<std::string> find_id(std::string_view name) const;
  // Removes the silences whose time is over, and returns their ids.
  std::vector<std::string> expire(TimePoint now);

  bool is_silenced(const Alert&) const;
  std::vector<Silence> all() const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Silence silence;
    TimePoint until;
  };
  std::map<std::string, Entry> entries_;
};

// The state of alerts that survives a killed daemon, and the storage for it.

// A message for one sink, sent once. It stays in the outbox until the sink has accepted it.
struct OutboxMessage {
  std::string id;           // the same at each try, and after a restart
  std::string sink;         // by its name
  std::string body;         // for the code that delivers it
  std::uint64_t order = 0;  // messages go out in this order, lowest first

  friend bool operator==(const OutboxMessage&, const OutboxMessage&) = default;
};

// One transaction: all of it is committed, or nothing.
struct AlertTransaction {
  bool everything = false;         // first deletes the stored firing alerts, silences and messages
  std::vector<Alert> alerts = {};  // each replaces its stored copy
  std::vector<Silence> silences = {};
  std::vector<std::string> unsilenced = {};  // ids
  std::vector<OutboxMessage> messages = {};
  std::vector<std::string> delivered = {};  // ids of messages that leave the outbox
  Requester requester = Requester::daemon();

  bool empty() const {
    return !everything && alerts.empty() && silences.empty() && unsilenced.empty() &&
           messages.empty() && delivered.empty();
  }
};

struct SavedAlerts {
  std::vector<Alert> firing;
  std::vector<Silence> silences;
  std::vector<OutboxMessage> messages;  // in the order in which they were given to save()
  std::uint64_t last_number = 0;        // the highest that any alert ever had
};

struct AlertHistoryQuery {
  std::string rule = {};                     // empty: any
  std::string gpus = {};                     // ids, separated by commas; empty: any
  std::optional<std::uint64_t> before = {};  // numbers below this one
  std::int64_t limit = 100;
};

// Lives on the io thread, and does its work elsewhere. Requests are served in order. A change that
// is reported as saved is on the disk, synced. A method returns false and does nothing if too many
// requests wait already. A callback never runs inside the call it was given to.
class AlertStorage {
 public:
  using OnSaved = std::function<void(const Result<void>&)>;

  virtual ~AlertStorage() = default;
  virtual bool load(std::function<void(Result<SavedAlerts>)> on_loaded) = 0;
  virtual bool save(AlertTransaction, OnSaved on_saved) = 0;
  // Whether save() would accept a transaction of this requester now.
  virtual bool has_queue_space(const Requester&) const { return true; }
  // Returns firing and resolved alerts, the newest first.
  virtual bool query_history(AlertHistoryQuery,
                             std::function<void(Result<std::vector<Alert>>)>) = 0;
  // Returns what is wrong with the storage, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  // The number of resolved alerts that are kept.
  static constexpr std::int64_t kMaxResolvedAlerts = 10'000;
};

}  // namespace gpuyard::andon
