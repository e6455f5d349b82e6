// The energy of CPU packages and their memory, as RAPL counts it: the zones intel-rapl:N in
// /sys/class/powercap, which AMD's packages have under the same names. Knows no GPU and no client.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/worker.h"

namespace gpuyard::cpu {

// Totals one of RAPL's counters, which wraps round. Knows no file.

// The largest count, which JSON can hold exactly: 9 GJ, half a century of a package's use.
inline constexpr std::int64_t kMaxMicrojoules = std::int64_t{1} << 53;

class EnergyCounter {
 public:
  // `raw` is the number just read, `range` the value after which it wraps to 0, both from 0 to
  // kMaxMicrojoules. Returns the energy counted since the counter's own beginning, if no two wraps
  // lie between two calls.
  // If the range is not known, or the number was beyond it, a fall is no wrap but a reset, and the
  // total falls too: a caller that takes a difference across it sees the fall.
  std::int64_t count(std::int64_t raw, std::optional<std::int64_t> range);

 private:
  std::optional<std::int64_t> last_;
  std::int64_t total_ = 0;
};

struct PackageEnergy {
  std::uint32_t number = 0;                     // the N of intel-rapl:N
  std::string name;                             // "package-0"; "psys" is all of the platform
  Result<std::int64_t> energy_uj;               // since the counter's own beginning
  std::optional<Result<std::int64_t>> dram_uj;  // nothing: memory is not counted
};

struct Energies {
  TimePoint taken;
  std::vector<PackageEnergy> packages;  // by number
  std::string unavailable_reason;       // why there are no packages
};

// Used by one thread at a time. The kernel checks whether this user may see a counter when its file
// is opened, and not at each read: the files stay open, so that the process may lose the right.
class Rapl {
 public:
  static constexpr std::uint32_t kMaxPackages = 64;
  static constexpr std::uint32_t kMaxSubzones = 16;  // of a package

  // Opens the counters that are there.
  explicit Rapl(std::string root);

  // Blocks on sysfs for some ten microseconds a file. Counters that wrapped once since the last
  // call are counted on; two wraps between two calls go unnoticed.
  Energies read();

 private:
  struct Zone {
    EnergyCounter counter = {};
    UniqueFd file = {};  // its counter's
    bool seen = true;    // in this reading
  };

  Result<std::int64_t> count(const std::string& path);
  std::optional<Result<std::int64_t>> count_dram(const std::string& package);

  const std::string root_;
  std::map<std::string, Zone> zones_;  // by path
};

// Reads CPU energy through a worker at the callers' request, and often enough that no wrap of a
// counter is missed. Lives on the io thread.

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

  // The worker outlives this.
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

// The power of CPU packages: the energy between two readings divided by the time between them.

struct PackagePower {
  std::uint32_t number = 0;
  Result<std::int64_t> milliwatts;
  std::optional<Result<std::int64_t>> dram_milliwatts;  // nothing: memory is not counted
};

// Returns the power of every package in the later reading.
std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later);

}  // namespace gpuyard::cpu
