// Reads CPU energy through a worker at the callers' request, and often enough that no wrap of a
// counter is missed. Thread: io.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/lifetime.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/worker.h"
#include "faces/cpu/rapl.h"

namespace gpuyard::cpu {

class CpuEnergyMonitor {
 public:
  // The smallest known counter, that of the memory of Intel's servers, wraps after 65.7 kJ: at 2 kW
  // that takes 33 s.
  static constexpr Duration kReadInterval = std::chrono::seconds(30);
  // The longest wait of a caller for a reading; sysfs takes far less, but the worker may be busy.
  static constexpr Duration kReadTimeout = std::chrono::seconds(1);
  // The interval of the calls to subscribers.
  static constexpr Duration kPeriod = std::chrono::milliseconds(100);
  // The most callers that wait for a reading at the same time: more than the connections of one
  // server, of which each user has a quota.
  static constexpr std::size_t kMaxCallers = 4 * (limits::kMaxConnections + limits::kReservedSlots);

  using OnRead = std::function<void(const Result<Energies>&)>;
  using OnEnergies = std::function<void(const Energies&)>;

  // The loop and the worker outlive this.
  CpuEnergyMonitor(Loop&, Worker&, std::string root);
  CpuEnergyMonitor(const CpuEnergyMonitor&) = delete;
  CpuEnergyMonitor& operator=(const CpuEnergyMonitor&) = delete;

  // Reads now, and then every kReadInterval.
  void start();

  // Returns the newest reading; before the first, one without packages that says so.
  const Energies& latest() const { return latest_; }

  // Reads once more. Answers in any case and never inside the call; Errc::timed_out after
  // kReadTimeout, Errc::busy if too many callers wait. Calls that come during a reading share the
  // next one.
  void read_fresh(OnRead);

  // Calls back every kPeriod for as long as the subscription lives, which may outlive this; a slow
  // worker makes the calls rarer, not later.
  Subscription subscribe(OnEnergies);
  std::size_t subscriber_count() const { return subscribers_.size(); }

 private:
  void read_periodically();
  void poll();
  void start_read();
  void on_read(Energies);
  void on_read_timeout();
  static void notify_callers(const std::vector<OnRead>&, const Result<Energies>&);

  Loop& loop_;
  Worker& worker_;
  std::shared_ptr<Rapl> rapl_;  // touched on the worker's thread alone
  Energies latest_;
  bool reading_ = false;                 // a reading is under way
  std::vector<OnRead> current_callers_;  // callers that wait for this reading
  std::vector<OnRead> next_callers_;     // callers that wait for the next one
  std::map<std::uint64_t, OnEnergies> subscribers_;
  std::uint64_t next_subscriber_ = 1;
  Subscription read_timeout_;
  Subscription read_timer_;
  Subscription poll_timer_;
  // Callbacks that come after the monitor is destroyed find this empty.
  Lifetime lifetime_;
};

}  // namespace gpuyard::cpu
