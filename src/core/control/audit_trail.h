// What goes into the audit, and how much of it. Lives on the io thread.
#pragma once

#include <map>
#include <string>

#include "base/loop.h"
#include "base/shares.h"
#include "control/archive.h"
#include "control/order.h"

namespace gpuyard::control {

class AuditTrail {
 public:
  AuditTrail(Loop& loop, Archive& archive) : loop_(loop), archive_(archive) {}

  void note(const DeviceInfo&, const Order&, const Change&, TimePoint began);
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
  Archive& archive_;
  TimePoint minute_{};
  std::map<std::string, Minute, std::less<>> persons_;
};

}  // namespace gpuyard::control
