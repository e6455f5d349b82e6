// The names of users, remembered for a while. Asking the system may wait for a directory service.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::processes {

// Asks the system: Errc::not_found for a number that is nobody's. May wait for the network.
Result<std::string> look_up_user(uid_t);

// The number of a user. May wait for the network.
Result<uid_t> look_up_uid(const std::string& name);

// The number of a group. May wait for the network.
Result<gid_t> look_up_group(const std::string& name);

// On one thread.
class UserNames {
 public:
  using LookUp = std::function<Result<std::string>(uid_t)>;

  static constexpr std::size_t kMost = 1024;
  static constexpr Duration kKept = std::chrono::minutes(10);
  static constexpr Duration kFailureKept = std::chrono::minutes(1);

  explicit UserNames(LookUp look_up = look_up_user) : look_up_(std::move(look_up)) {}

  Result<std::string> of(uid_t, TimePoint now);

 private:
  struct Known {
    Result<std::string> name;
    TimePoint until;
  };

  LookUp look_up_;
  std::map<uid_t, Known> known_;
};

}  // namespace gpuyard::processes
