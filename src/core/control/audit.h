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
#include "core/control/change_result.h"
#include "core/control/managed_setting.h"
#include "core/control/queued_change.h"
#include "gpu/device/device.h"

namespace gpuyard::control {

struct AuditEntry {
  // The outcome of a request that never reached a GPU.
  static constexpr std::string_view kRefused = "refused";
  // The outcome of an action that concerns no GPU.
  static constexpr std::string_view kDone = "done";

  std::int64_t number = 0;  // given by the storage; counts up
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
  // The rights behind the entry. Each source has its own quota of the stored entries
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
  // The user or address that the entry counts for: ChangeRequester::quota_group().
  std::string quota_group = {};

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditQuery {
  std::string gpus = {};  // ids, separated by commas; empty: all
  std::int64_t limit = 100;
  std::optional<std::int64_t> before = {};  // only entries with a lower number
};

// One transaction of the storage: all of it is committed, or nothing.
struct ControlTransaction {
  std::optional<ManagedSetting> put;      // replaces an earlier one of that GPU and kind
  std::optional<ManagedSetting> removed;  // only its GPU and kind matter
  std::optional<AuditEntry> audit;
  Requester requester = Requester::daemon();
};

// When a transaction is committed. Each kind outlives this program once its callback has run; a
// power cut may lose transactions that are younger than ControlStorage::kMaxCommitDelay.
enum class CommitTiming : std::uint8_t {
  durable,  // now, and it outlives a power cut, too
  now,
  soon,  // with others, within kMaxCommitDelay
};

// Persists the state that control needs after the daemon was killed.
//
// Thread: io; the work is done elsewhere, in the order of the calls. A call returns false, and does
// nothing, if too much waits already. A callback never runs inside the call it was given to.
class ControlStorage {
 public:
  using OnSaved = std::function<void(const Result<void>&)>;

  virtual ~ControlStorage() = default;
  virtual bool load(std::function<void(Result<std::vector<ManagedSetting>>)> on_loaded) = 0;
  // Records a transaction at once, if there is a place for it: it outlives this program when this
  // returns true, and a reboot once `on_saved` has reported its commit. False: save() has to.
  virtual bool record(const ControlTransaction&, OnSaved on_saved) = 0;
  // Reports the commit, or why it failed: then the storage is unchanged. A managed setting that is
  // saved now replaces a transaction of the same one that waits for kMaxCommitDelay; both callbacks
  // then run.
  virtual bool save(ControlTransaction, CommitTiming, OnSaved) = 0;
  virtual bool query_audit(AuditQuery,
                           std::function<void(Result<std::vector<AuditEntry>>)> on_result) = 0;
  // Describes what is wrong with the storage, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  static constexpr Duration kMaxCommitDelay = std::chrono::milliseconds(100);
  // Audit entries stored for each source. Beyond this number, the oldest entries of the quota group
  // with the most are deleted first.
  static constexpr std::int64_t kMaxAuditEntries = limits::kMaxAuditLines;
  static constexpr std::int64_t kMaxOrdinaryEntries = limits::kMaxUserAuditLines;
  static constexpr std::int64_t kMaxLeaseEntries = limits::kMaxLeaseAuditLines;
  static constexpr std::int64_t kMaxRefusalEntries = limits::kMaxRefusalAuditLines;
  // Entries of administrators are kept for this long, up to kMaxAdministratorEntries of them. A
  // clock that is wrong removes none of the newest kMaxAuditEntries.
  static constexpr std::chrono::days kAdministratorRetention = limits::kAdministratorAuditRetention;
  static constexpr std::int64_t kMaxAdministratorEntries = 10 * kMaxAuditEntries;
};

// An action other than a change of a setting.
struct AuditedAction {
  std::string action;  // "cordon: its fan is replaced"
  DeviceId gpu = {};   // empty: no GPU
  std::optional<std::uint32_t> index = {};
  bool forced = false;
};

// Limits the entries of each quota group a minute. Pure state.
class AuditRateLimiter {
 public:
  // Groups beyond `max_groups` share one count of `shared_limit` entries.
  AuditRateLimiter(std::size_t max_groups, int shared_limit)
      : max_groups_(max_groups), shared_limit_(shared_limit) {}

  // Returns how many entries of the group, or of the shared count, were dropped before this one;
  // nothing if this one is dropped, because `limit` entries were recorded in this minute.
  std::optional<std::uint64_t> try_record(const std::string& group, int limit, TimePoint now);

 private:
  struct EntryCounts {
    int recorded = 0;
    std::uint64_t dropped = 0;
  };

  std::size_t max_groups_;
  int shared_limit_;
  TimePoint minute_began_at_{};
  std::map<std::string, EntryCounts, std::less<>> counts_by_group_;  // "": the shared count
  std::uint64_t carried_dropped_ = 0;
};

// Writes the audit, and limits how much goes into it.
//
// Thread: io. The loop and the storage outlive the trail.
class AuditTrail {
 public:
  AuditTrail(Loop& loop, ControlStorage& storage) : loop_(loop), storage_(storage) {}

  void record_change(const DeviceInfo&, const QueuedChange&, const ChangeResult&,
                     TimePoint started_at);
  // Records a request that was refused before it became a change.
  void record_refusal(const ChangeRequester&, const std::string& action, const Error&);
  // Records an action other than a change of a setting, e.g. a cordon.
  void record_action(const ChangeRequester&, const AuditedAction&);

  // Refusals and failures of one user recorded a minute (kMaxRefusalsPerMinute), and actions of a
  // user who may only lease (kMaxActionsPerMinute). Further ones are only counted, so that no user
  // can fill the disk or hide among others. Actions of administrators are always recorded.
  static constexpr int kMaxRefusalsPerMinute = limits::kMaxRefusalsPerMinute;
  static constexpr int kMaxActionsPerMinute = limits::kMemberActionsPerMinute;
  // Users and addresses counted separately in a minute. Further users share one count; further
  // addresses, which one client can have in any number, share one entry.
  static constexpr std::size_t kMaxQuotaGroups = 1024;
  static constexpr std::size_t kMaxAddresses = limits::kMaxRefusedAddresses;

 private:
  // Returns false if this entry exceeds the requester's rate. Otherwise adds to `text` how many
  // were dropped.
  bool admit_refusal(const ChangeRequester&, std::string& text);
  bool admit_action(const ChangeRequester&, std::string& text);
  void save(const ChangeRequester&, AuditEntry);

  Loop& loop_;
  ControlStorage& storage_;
  AuditRateLimiter refusals_{kMaxQuotaGroups, kMaxRefusalsPerMinute};
  AuditRateLimiter refusals_by_address_{kMaxAddresses, 1};
  AuditRateLimiter actions_{kMaxQuotaGroups, kMaxRefusalsPerMinute};
  // Shared with callbacks that may run after the destructor.
  std::shared_ptr<RepeatedLine> loss_log_ = std::make_shared<RepeatedLine>();
};

}  // namespace gpuyard::control
