// What goes into the audit, and how much of it. Lives on the io thread.
#pragma once

#include "base/loop.h"
#include "control/archive.h"
#include "control/order.h"

namespace gpuyard::control {

class AuditTrail {
 public:
  AuditTrail(Loop& loop, Archive& archive) : loop_(loop), archive_(archive) {}

  void note(const DeviceInfo&, const Order&, const Change&, TimePoint began);
  // Of what never got as far as an order. More than kRefusals a minute are counted, not noted:
  // nobody shall fill a disk by asking.
  void note_refusal(const Asker&, const std::string& action, const Error&);

  static constexpr int kRefusals = 30;

 private:
  void save(AuditEntry);

  Loop& loop_;
  Archive& archive_;
  TimePoint minute_{};
  int refusals_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace gpuyard::control
