// The names of users for the io thread: looked up on a worker, because a directory service may be
// slow, and remembered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/worker.h"
#include "processes/users.h"

namespace gpuyard::daemon {

// Lives on the io thread.
class UserDirectory {
 public:
  // How many names are kept, and for how long; after that they are looked up again.
  static constexpr std::size_t kMost = 1024;
  static constexpr Duration kKept = std::chrono::minutes(10);
  // How long learn() waits for names.
  static constexpr Duration kPatience = std::chrono::milliseconds(300);

  // The references outlive it.
  UserDirectory(Loop& loop, Worker& worker,
                processes::UserNames::LookUp look_up = processes::look_up_user);

  // Returns nothing if the name is not known yet, or if the system has none. It looks up an unknown
  // name.
  std::optional<std::string> name_of(std::uint32_t uid);
  // Calls `done` once all of them were looked up, or kPatience is over; never inside the call.
  void learn(const std::vector<std::uint32_t>& uids, std::function<void()> done);

 private:
  struct Known {
    std::optional<std::string> name;
    TimePoint until;
  };
  using Names = std::map<std::uint32_t, std::optional<std::string>>;

  bool look_up(std::vector<std::uint32_t> uids, std::function<void()> done);
  void take(const Names&);

  Loop& loop_;
  Worker& worker_;
  std::shared_ptr<processes::UserNames> names_;  // the worker's own
  std::map<std::uint32_t, Known> known_;
  std::set<std::uint32_t> asked_;  // one by one, not answered yet
  Lifetime here_;
};

// The members of one group, likewise. Lives on the io thread.
class GroupDirectory {
 public:
  using LookUp = std::function<Result<bool>(uid_t)>;
  using Told = std::function<void(bool)>;

  static constexpr std::size_t kMost = 1024;
  // For so long a user who has left the group still counts as a member.
  static constexpr Duration kKept = std::chrono::seconds(30);
  // Who is not known to be a member by then is none.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  // The references outlive it.
  GroupDirectory(Loop& loop, Worker& worker, LookUp look_up)
      : loop_(loop), worker_(worker), look_up_(std::move(look_up)) {}

  // Calls `told` once: inside the call if it is known.
  void ask(std::uint32_t uid, Told told);

 private:
  struct Known {
    bool member = false;
    TimePoint until;
  };

  void answer(std::uint32_t uid, bool member);

  Loop& loop_;
  Worker& worker_;
  LookUp look_up_;
  std::map<std::uint32_t, Known> known_;
  std::map<std::uint32_t, std::vector<Told>> asked_;
  std::map<std::uint32_t, Subscription> patience_;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
