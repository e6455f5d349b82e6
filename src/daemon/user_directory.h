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

}  // namespace gpuyard::daemon
