// Limits how many places of a shared queue each user may take. Pure state.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/requester.h"

namespace gpuyard {

class SharedRoom {
 public:
  struct Limits {
    std::size_t most;         // in total
    std::size_t kept;         // of these, reserved for privileged requesters
    std::size_t most_of_one;  // for each unprivileged party
  };

  explicit SharedRoom(Limits limits) : limits_(limits) {}

  bool fits(const Requester& requester) const {
    if (taken_ >= limits_.most) return false;
    if (requester.privileged) return true;
    const auto own = of_.find(requester.party);
    return of_strangers_ < limits_.most - limits_.kept &&
           (own == of_.end() || own->second < limits_.most_of_one);
  }
  // Takes a place. Returns false if none is left for this requester.
  bool enter(const Requester& requester) {
    if (!fits(requester)) return false;
    ++taken_;
    if (requester.privileged) return true;
    ++of_strangers_;
    ++of_[requester.party];
    return true;
  }

 private:
  Limits limits_;
  std::size_t taken_ = 0;
  std::size_t of_strangers_ = 0;  // taken by unprivileged parties
  std::map<std::string, std::size_t> of_;
};

}  // namespace gpuyard
