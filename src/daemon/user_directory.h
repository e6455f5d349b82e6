// The names of users for the io thread: looked up on a worker, because a directory service may be
// slow, and remembered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/worker.h"
#include "core/processes/user_names.h"

namespace gpuyard::daemon {

// Thread: io.
class UserDirectory {
 public:
  // The number of names that are kept, and for how long; then they are looked up again.
  static constexpr std::size_t kMaxNames = 1024;
  static constexpr Duration kNameRetention = std::chrono::minutes(10);
  // A failed look-up leaves the user unknown and is retried after this time.
  static constexpr Duration kFailureRetention = processes::UserNames::kFailureRetention;
  // The interval at which refresh_regularly() checks for unknown and outdated names.
  static constexpr Duration kRefreshInterval = std::chrono::minutes(1);
  // The longest wait of resolve() for names.
  static constexpr Duration kResolveTimeout = std::chrono::milliseconds(300);

  // The references outlive it.
  UserDirectory(Loop& loop, Worker& worker,
                processes::UserNames::NameLookup look_up = processes::look_up_user);

  // Returns nothing if the name is not known yet, or if the system has none. It looks up an unknown
  // name.
  std::optional<std::string> name_of(std::uint32_t uid);
  // Returns whether the system reported that the user does not exist. False if unknown.
  bool is_gone(std::uint32_t uid);
  // Looks up the users returned by `users`, and again whenever a name is outdated.
  void refresh_regularly(const std::function<std::vector<std::uint32_t>()>& users);
  // Calls `on_done` once all are looked up, or kResolveTimeout is over; never inside the call.
  void resolve(const std::vector<std::uint32_t>& uids, std::function<void()> on_done);

 private:
  struct CachedName {
    std::optional<std::string> name;
    bool gone = false;
    TimePoint expires_at;
  };
  struct PendingResolve {  // for resolve()
    std::set<std::uint32_t> unknown;
    std::function<void()> on_done;
    Subscription timeout_timer;
  };

  bool is_fresh(std::uint32_t uid) const;
  void refresh(const std::vector<std::uint32_t>& uids);
  bool enqueue(std::uint32_t uid, bool urgent);
  bool start_next();
  void on_looked_up(std::uint32_t uid, const Result<std::string>& name);
  void finish_resolve(std::uint64_t id);

  Loop& loop_;
  Worker& worker_;
  processes::UserNames::NameLookup look_up_;  // called on the worker
  std::map<std::uint32_t, CachedName> cache_;
  // Uids to look up, one a task, so that a slow name service delays other work of the worker by one
  // look-up only.
  std::deque<std::uint32_t> queue_;
  std::set<std::uint32_t> requested_;  // queued or running; at most kMaxNames
  bool lookup_running_ = false;
  std::map<std::uint64_t, PendingResolve> waiting_;
  std::uint64_t next_waiting_ = 0;
  Subscription refresh_timer_;
  Lifetime lifetime_;
};

// The members of one group, likewise. Thread: io.
class GroupDirectory {
 public:
  using LookUp = std::function<Result<bool>(uid_t)>;
  using OnMember = std::function<void(bool)>;

  static constexpr std::size_t kMaxUsers = 1024;
  // A user who has left the group still counts as a member for this long.
  static constexpr Duration kMembershipRetention = std::chrono::seconds(30);
  // A user who is not known to be a member by then is none.
  static constexpr Duration kLookUpTimeout = std::chrono::seconds(2);

  // The references outlive it.
  GroupDirectory(Loop& loop, Worker& worker, LookUp look_up)
      : loop_(loop), worker_(worker), look_up_(std::move(look_up)) {}

  // Calls `on_member` once: inside the call if it is known.
  void query(std::uint32_t uid, OnMember on_member);

 private:
  struct CachedMembership {
    bool member = false;
    TimePoint expires_at;
  };

  void on_looked_up(std::uint32_t uid, bool member);

  Loop& loop_;
  Worker& worker_;
  LookUp look_up_;
  std::map<std::uint32_t, CachedMembership> cache_;
  std::map<std::uint32_t, std::vector<OnMember>> waiting_;
  std::map<std::uint32_t, Subscription> timeout_timers_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
