// What must be known again of alerts after the daemon was killed, and who keeps it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "andon/alert.h"
#include "andon/silence.h"
#include "base/result.h"

namespace gpuyard::andon {

// What one sink is to be told once, until it has taken it.
struct Outgoing {
  std::string id;           // the same at each try, and after a restart
  std::string sink;         // by its name
  std::string body;         // for whoever delivers it
  std::uint64_t order = 0;  // what was to be said first has the lower number

  friend bool operator==(const Outgoing&, const Outgoing&) = default;
};

// All of it is kept, or nothing.
struct Entry {
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
class Archive {
 public:
  using Saved = std::function<void(const Result<void>&)>;

  virtual ~Archive() = default;
  virtual bool load(std::function<void(Result<Kept>)> loaded) = 0;
  virtual bool save(Entry, Saved kept) = 0;
  // Firing ones and those that are over, the newest first.
  virtual bool history(HistoryQuestion, std::function<void(Result<std::vector<Alert>>)>) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  // So many that are over are kept.
  static constexpr std::int64_t kAlertsKept = 10'000;
};

}  // namespace gpuyard::andon
