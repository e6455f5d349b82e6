// Where events of all sources meet: each gets the name of its GPU, is bounded, and is told once,
// however many sources told it. Lives on the io thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "device/event.h"
#include "device/event_limit.h"
#include "events/dedupe.h"
#include "events/journal.h"
#include "events/kernel_xid.h"

namespace gpuyard::events {

class Intake {
 public:
  struct Listener {
    std::function<void(const DeviceEvent&)> on_event;  // new
    // What on_event told is told by the other source too, which may know whose process it hit.
    std::function<void(const DeviceEvent&)> on_echo;
  };

  // What is new goes into the journal, into the log and to the listener.
  Intake(Loop&, Journal&, Listener);

  // By which names GPUs go. Those of earlier fleets are still known by the names they had.
  void on_fleet(const Fleet&);

  void on_driver_event(const DeviceEvent&);
  void on_kernel_xid(const KernelXid&, TimePoint written);
  // What a source could not tell.
  void on_lost(const std::string& what);

  static constexpr std::size_t kMostGpus = 256;
  static constexpr double kBurst = 128;  // events of one GPU from one source
  static constexpr double kEachSecond = 32;

 private:
  struct Name {
    std::uint32_t index;
    std::string pci_address;
  };

  void take(const DeviceEvent&, const std::string& where);
  void tell(const DeviceEvent&, const std::string& where);
  void tell_refused();

  Loop& loop_;
  Journal& journal_;
  Listener listener_;
  std::map<DeviceId, Name> names_;
  std::map<EventSource, EventLimit> limits_;
  Dedupe dedupe_;
  Subscription refused_timer_;
};

// What a person reads of it: "Xid 79: The GPU has fallen off the bus."
std::string sentence_of(const DeviceEvent&);
Severity severity_of(const DeviceEvent&);

}  // namespace gpuyard::events
