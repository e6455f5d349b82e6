// The audit: which user changed what, or tried to.
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
  // The outcome of a request that never reached a GPU.
  static constexpr std::string_view kRefused = "refused";
  // The outcome of what is about no GPU.
  static constexpr std::string_view kDone = "done";

  std::int64_t number = 0;  // given by the archive; counts up
  WallTime at{};
  std::string by;  // "uid 1000"; "gpuyard" for a change by expiry or a restart
  std::string request_id;
  std::string action;  // "set power_limit to 300 W"
  DeviceId gpu;        // empty: no GPU
  std::optional<std::uint32_t> index;
  std::optional<std::string> before;
  std::optional<std::string> after;
  std::string outcome;
  std::optional<std::string> error;
  bool forced = false;
  Duration took{};
  // The origin of the entry. Each source has its own share of the kept entries (ControlArchive), so
  // that no source pushes out the entries of another.
  enum class Source : std::uint8_t { user, administrator, lease, refused, refused_over_tcp };
  BOOST_DESCRIBE_NESTED_ENUM(Source, user, administrator, lease, refused, refused_over_tcp)
  Source source = Source::user;

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditQuestion {
  std::string gpus = {};  // ids, separated by commas; empty: all
  std::int64_t limit = 100;
  std::optional<std::int64_t> before = {};  // only entries with a lower number
};

// One transaction of the archive: all of it is kept, or nothing.
struct ControlEntry {
  std::optional<Holding> put;      // replaces an earlier one of that GPU and kind
  std::optional<Holding> removed;  // only its GPU and kind matter
  std::optional<AuditEntry> audit;
};

// When an entry is kept. Either kind outlives this program once its callback has run; a power cut
// may lose entries that are younger than ControlArchive::kSoon.
enum class When : std::uint8_t {
  now,
  soon,  // with others, within kSoon
};

// Keeps the state that control needs after the daemon was killed. Lives on the io thread, works on
// another, and serves calls in their order. A call returns false, and does nothing, if too much
// waits already. A callback never runs inside the call it was given to.
class ControlArchive {
 public:
  using Kept = std::function<void(const Result<void>&)>;

  virtual ~ControlArchive() = default;
  virtual bool load(std::function<void(Result<std::vector<Holding>>)> loaded) = 0;
  // Tells when the entry is kept, or why not: then the archive is unchanged. A holding that is kept
  // now replaces an entry of the same holding that waits for kSoon; both callbacks then run.
  virtual bool save(ControlEntry, When, Kept) = 0;
  virtual bool audit(AuditQuestion,
                     std::function<void(Result<std::vector<AuditEntry>>)> answered) = 0;
  // Describes what is wrong with the archive, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  static constexpr Duration kSoon = std::chrono::milliseconds(100);
  // How many entries of the audit are kept of each source. The counts are separate, so that users
  // with few rights cannot push out the entries of those with more.
  static constexpr std::int64_t kAuditKept = shares::kAuditLines;
  static constexpr std::int64_t kLeaseChangesKept = shares::kLeaseLines;
  static constexpr std::int64_t kRefusalsKept = shares::kRefusalLines;
  // How long the entries of administrators are kept, up to kMostOfAdministrators of them. A clock
  // that is wrong removes none of the newest kAuditKept.
  static constexpr std::chrono::days kAdministratorsKept = shares::kAdministratorsLines;
  static constexpr std::int64_t kMostOfAdministrators = 10 * kAuditKept;
};

// Writes the audit, and limits how much goes into it. Lives on the io thread.
class AuditTrail {
 public:
  AuditTrail(Loop& loop, ControlArchive& archive) : loop_(loop), archive_(archive) {}

  void note(const DeviceInfo&, const PendingChange&, const Change&, TimePoint began);
  // Records a request that was refused before it became a change.
  void note_refusal(const Asker&, const std::string& action, const Error&);
  // Records what was done to no GPU: a token that was made, say.
  void note_done(const Asker&, const std::string& action);

  // How many refusals and failures of one user are recorded a minute. Further ones are only
  // counted, so that no user can fill the disk or hide behind others. Administrators are always
  // recorded.
  static constexpr int kRefusals = shares::kRefusalsAMinute;
  // How many users are counted separately a minute. Further users share one count.
  static constexpr std::size_t kMostPersons = 1024;

 private:
  struct Minute {
    int noted = 0;
    std::uint64_t left_out = 0;
  };

  // Returns false if this entry exceeds kRefusals. Else adds to `error` how many were left out.
  bool admit(const Asker&, std::string& error);
  void save(AuditEntry);

  Loop& loop_;
  ControlArchive& archive_;
  TimePoint minute_{};
  std::map<std::string, Minute, std::less<>> persons_;
};

}  // namespace gpuyard::control
