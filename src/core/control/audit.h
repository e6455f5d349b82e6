// The audit: which user changed what, or tried to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/repeated_line.h"
#include "base/requester.h"
#include "core/control/change_request.h"
#include "core/control/managed_setting.h"
#include "gpu/device/device.h"

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
  // The rights behind the entry. Each source has its own share of the stored entries
  // (ControlStorage), so that users cannot push out entries of users with more rights. state.db
  // stores these names.
  enum class Source : std::uint8_t {
    user,           // users with control rights who are not administrators, and their refusals
    ordinary,       // users who may only lease
    administrator,  // administrators, and their refusals
    lease,          // a change under a lease
    gpuyard,        // gpuyard itself: a setting expires, a rule caps a GPU
    refused,        // refusals of ordinary users
    refused_over_tcp,
  };
  BOOST_DESCRIBE_NESTED_ENUM(Source, user, ordinary, administrator, lease, gpuyard, refused,
                             refused_over_tcp)
  Source source = Source::user;
  // The user or address that the entry counts for: Asker::counted().
  std::string person = {};

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditQuestion {
  std::string gpus = {};  // ids, separated by commas; empty: all
  std::int64_t limit = 100;
  std::optional<std::int64_t> before = {};  // only entries with a lower number
};

// One transaction of the archive: all of it is kept, or nothing.
struct ControlTransaction {
  std::optional<Holding> put;      // replaces an earlier one of that GPU and kind
  std::optional<Holding> removed;  // only its GPU and kind matter
  std::optional<AuditEntry> audit;
  Requester requester = Requester::daemon();
};

// When an entry is kept. Either kind outlives this program once its callback has run; a power cut
// may lose entries that are younger than ControlStorage::kSoon.
enum class When : std::uint8_t {
  now,
  soon,  // with others, within kSoon
};

// Keeps the state that control needs after the daemon was killed. Lives on the io thread, works on
// another, and serves calls in their order. A call returns false, and does nothing, if too much
// waits already. A callback never runs inside the call it was given to.
class ControlStorage {
 public:
  using Kept = std::function<void(const Result<void>&)>;

  virtual ~ControlStorage() = default;
  virtual bool load(std::function<void(Result<std::vector<Holding>>)> loaded) = 0;
  // Tells when the entry is kept, or why not: then the archive is unchanged. A holding that is kept
  // now replaces an entry of the same holding that waits for kSoon; both callbacks then run.
  virtual bool save(ControlTransaction, When, Kept) = 0;
  virtual bool audit(AuditQuestion,
                     std::function<void(Result<std::vector<AuditEntry>>)> answered) = 0;
  // Describes what is wrong with the archive, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  static constexpr Duration kSoon = std::chrono::milliseconds(100);
  // Audit entries stored for each source. Beyond this number, the oldest entries of the person with
  // the most are deleted first.
  static constexpr std::int64_t kAuditKept = shares::kAuditLines;
  static constexpr std::int64_t kOrdinaryKept = shares::kOrdinaryLines;
  static constexpr std::int64_t kLeaseChangesKept = shares::kLeaseLines;
  static constexpr std::int64_t kRefusalsKept = shares::kRefusalLines;
  // How long the entries of administrators are kept, up to kMostOfAdministrators of them. A clock
  // that is wrong removes none of the newest kAuditKept.
  static constexpr std::chrono::days kAdministratorsKept = shares::kAdministratorsLines;
  static constexpr std::int64_t kMostOfAdministrators = 10 * kAuditKept;
};

// An action other than a change of a setting.
struct Deed {
  std::string action;  // "cordon: its fan is replaced"
  DeviceId gpu = {};   // empty: no GPU
  std::optional<std::uint32_t> index = {};
  bool forced = false;
};

// Limits the entries of each person a minute. Pure state.
class EntriesOfEach {
 public:
  // Persons beyond `most` share one count of `shared` entries.
  EntriesOfEach(std::size_t most, int shared) : most_(most), shared_(shared) {}

  // Returns how many entries of the person, or of the shared count, were dropped before this one;
  // nothing if this one is dropped, because `limit` entries were recorded in this minute.
  std::optional<std::uint64_t> take(const std::string& person, int limit, TimePoint now);

 private:
  struct Minute {
    int noted = 0;
    std::uint64_t left_out = 0;
  };

  std::size_t most_;
  int shared_;
  TimePoint minute_{};
  std::map<std::string, Minute, std::less<>> persons_;  // "": the shared count
  std::uint64_t carried_ = 0;
};

// Writes the audit, and limits how much goes into it. Lives on the io thread.
class AuditTrail {
 public:
  AuditTrail(Loop& loop, ControlStorage& archive) : loop_(loop), archive_(archive) {}

  void note(const DeviceInfo&, const QueuedChange&, const Change&, TimePoint began);
  // Records a request that was refused before it became a change.
  void note_refusal(const Asker&, const std::string& action, const Error&);
  // Records an action other than a change of a setting, e.g. a cordon.
  void note_done(const Asker&, const Deed&);

  // Refusals and failures of one user recorded a minute, and also actions of a user who may only
  // lease. Further ones are only counted, so that no user can fill the disk or hide among others.
  // Actions of administrators are always recorded.
  static constexpr int kRefusals = shares::kRefusalsAMinute;
  static constexpr int kMembersDeeds = shares::kMembersDeedsAMinute;
  // Users and addresses counted separately in a minute. Further users share one count; further
  // addresses, which one client can have in any number, share one entry.
  static constexpr std::size_t kMostPersons = 1024;
  static constexpr std::size_t kMostAddresses = shares::kRefusedAddresses;

 private:
  // Returns false if this entry exceeds the asker's rate. Otherwise adds to `text` how many were
  // dropped.
  bool admit_refusal(const Asker&, std::string& text);
  bool admit_deed(const Asker&, std::string& text);
  void save(const Asker&, AuditEntry);

  Loop& loop_;
  ControlStorage& archive_;
  EntriesOfEach refusals_{kMostPersons, kRefusals};
  EntriesOfEach refusals_by_address_{kMostAddresses, 1};
  EntriesOfEach deeds_{kMostPersons, kRefusals};
  // Shared with callbacks that may run after the destructor.
  std::shared_ptr<RepeatedLine> lost_ = std::make_shared<RepeatedLine>();
};

}  // namespace gpuyard::control
