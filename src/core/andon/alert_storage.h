// The state of alerts that survives a killed daemon, and the storage for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/requester.h"
#include "base/result.h"
#include "core/andon/alert.h"
#include "core/andon/silences.h"

namespace gpuyard::andon {

// A message for one sink, sent once. It stays in the outbox until the sink has accepted it, or has
// made a dead letter of it.
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

// Thread: io; the work is done elsewhere. Requests are served in order. A change that is reported
// as saved is on the disk, synced. A method returns false and does nothing if too many requests
// wait already. A callback never runs inside the call it was given to.
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
