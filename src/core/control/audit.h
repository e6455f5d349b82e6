// Who changed what, or tried to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/loop.h"
#include "base/shares.h"
#include "control/holding.h"
#include "control/pending_change.h"
#include "device/device.h"

namespace gpuyard::control {

struct AuditEntry {
  // The outcome of what never got as far as a GPU.
  static constexpr std::string_view kRefused = "refused";

  std::int64_t number = 0;  // the archive's to give: counts up
  WallTime at{};
  std::string by;  // "uid 1000"; "gpuyard" for what time or a restart did
  std::string request_id;
  std::string action;  // "set power_limit to 300 W"
  DeviceId gpu;        // empty: of none
  std::optional<std::uint32_t> index;
  std::optional<std::string> before;
  std::optional<std::string> after;
  std::string outcome;
  std::optional<std::string> error;
  bool forced = false;
  Duration took{};
  // Whose doing it is. Each kind has a share of its own of what is kept (ControlArchive), so that
  // none pushes out another's.
  enum class Source : std::uint8_t { user, administrator, lease, refused, refused_over_tcp };
  BOOST_DESCRIBE_NESTED_ENUM(Source, user, administrator, lease, refused, refused_over_tcp)
  Source source = Source::user;

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditQuestion {
  std::string gpus = {};  // their ids with commas; empty: all
  std::int64_t limit = 100;
  std::optional<std::int64_t> before = {};  // entries with a lower number
};

// What must be known again after the daemon was killed, and who keeps it.

// All of it is kept, or nothing.
struct ControlEntry {
  std::optional<Holding> put;      // in the place of an earlier one of that GPU and kind
  std::optional<Holding> removed;  // by its GPU and kind
  std::optional<AuditEntry> audit;
};

// When it is kept. Both outlive the end of this program once they are told; a power cut spares what
// is older than ControlArchive::kSoon.
enum class When : std::uint8_t {
  now,
  soon,  // with others, within kSoon
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first.
// False, and nothing happens: too much waits already. A callback never runs inside the call it was
// given to.
class ControlArchive {
 public:
  using Kept = std::function<void(const Result<void>&)>;

  virtual ~ControlArchive() = default;
  virtual bool load(std::function<void(Result<std::vector<Holding>>)> loaded) = 0;
  // Tells when it is kept, or why not: then it is as before. What is kept now of a holding
  // takes the place of what was to be kept soon of it, which is told with it.
  virtual bool save(ControlEntry, When, Kept) = 0;
  virtual bool audit(AuditQuestion,
                     std::function<void(Result<std::vector<AuditEntry>>)> answered) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  static constexpr Duration kSoon = std::chrono::milliseconds(100);
  // So many entries of the audit are kept, each source for itself: whoever may do little pushes
  // out nothing of those who may do more.
  static constexpr std::int64_t kAuditKept = shares::kAuditLines;
  static constexpr std::int64_t kLeaseChangesKept = shares::kLeaseLines;
  static constexpr std::int64_t kRefusalsKept = shares::kRefusalLines;
  // Those of administrators, however many there are, for so long; a clock that is wrong takes none
  // of the newest kAuditKept away.
  static constexpr std::chrono::days kAdministratorsKept = shares::kAdministratorsLines;
  static constexpr std::int64_t kMostOfAdministrators = 10 * kAuditKept;
};

// What goes into the audit, and how much of it. Lives on the io thread.

class AuditTrail {
 public:
  AuditTrail(Loop& loop, ControlArchive& archive) : loop_(loop), archive_(archive) {}

  void note(const DeviceInfo&, const PendingChange&, const Change&, TimePoint began);
  // Of what never got as far as an order.
  void note_refusal(const Asker&, const std::string& action, const Error&);

  // Of what somebody was refused, or failed at, more a minute is counted, not noted: nobody shall
  // fill a disk by asking, nor hide behind others. Administrators are noted always.
  static constexpr int kRefusals = shares::kRefusalsAMinute;
  // So many are told from each other in a minute; who comes then shares one place.
  static constexpr std::size_t kMostPersons = 1024;

 private:
  struct Minute {
    int noted = 0;
    std::uint64_t left_out = 0;
  };

  // False: it is one too many. Else says how many were, in the words of the error.
  bool admit(const Asker&, std::string& error);
  void save(AuditEntry);

  Loop& loop_;
  ControlArchive& archive_;
  TimePoint minute_{};
  std::map<std::string, Minute, std::less<>> persons_;
};

}  // namespace gpuyard::control
