// The energy of CPU packages and their memory, as RAPL counts it: the zones intel-rapl:N below
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
#include "base/result.h"
#include "base/worker.h"

namespace gpuyard::cpu {

// One of RAPL's counters, which goes round: what it has counted in all. Knows no file.

// So that every number of it is one in JSON: 9 GJ, which a package counts in half a century.
inline constexpr std::int64_t kMostMicrojoules = std::int64_t{1} << 53;

class EnergyCounter {
 public:
  // `raw` as just read, and `range`, after which it begins again at 0, both from 0 to
  // kMostMicrojoules. Returns what was counted since the counter's own beginning, as far as it was
  // looked at before it had gone round twice.
  // Where the range is not known, or the number was beyond it, a fall is no round but a new
  // beginning, and so it is here: whoever takes a difference across it sees it fall.
  std::int64_t count(std::int64_t raw, std::optional<std::int64_t> range);

 private:
  std::optional<std::int64_t> last_;
  std::int64_t total_ = 0;
};

struct PackageEnergy {
  std::uint32_t number = 0;                     // the N of intel-rapl:N
  std::string name;                             // "package-0"; "psys" is all of the platform
  Result<std::int64_t> energy_uj;               // since the counter's own beginning
  std::optional<Result<std::int64_t>> dram_uj;  // nothing: it does not count its memory
};

struct Energies {
  TimePoint taken;
  std::vector<PackageEnergy> packages;  // by number
  std::string why_none;                 // where there are none
};

// Used by one thread at a time.
class Rapl {
 public:
  static constexpr std::uint32_t kMostPackages = 64;
  static constexpr std::uint32_t kMostSubzones = 16;  // of a package

  explicit Rapl(std::string root) : root_(std::move(root)) {}

  // Blocks on sysfs for some ten microseconds a file. A counter that went round since the last call
  // is counted on; one that goes round twice between two calls is not noticed.
  Energies read();

 private:
  Result<std::int64_t> count(const std::string& zone);
  std::optional<Result<std::int64_t>> count_dram(const std::string& package);

  const std::string root_;
  std::map<std::string, EnergyCounter> counters_;  // by the zone's path
};

// Reads CPU energy through a worker for whoever asks, and often enough that no counter goes round
// unseen. Lives on the io thread.

class Watch {
 public:
  // The smallest counter we know of, of the memory of Intel's servers, goes round after 65.7 kJ: at
  // 2 kW that takes 33 s.
  static constexpr Duration kLookEvery = std::chrono::seconds(30);
  // So long is a reading waited for; sysfs takes far less, but other work of the worker may not.
  static constexpr Duration kPatience = std::chrono::seconds(1);
  // How often those who listen hear.
  static constexpr Duration kPeriod = std::chrono::milliseconds(100);
  static constexpr std::size_t kMostCallers = 1024;  // who wait for a reading at the same time

  using Answer = std::function<void(const Result<Energies>&)>;
  using Heard = std::function<void(const Energies&)>;

  // The worker outlives this.
  Watch(Loop&, Worker&, std::string root);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Looks now, and from now on every kLookEvery.
  void start();

  // The newest reading; at first one of no packages, which says that it was not read yet.
  const Energies& latest() const { return latest_; }

  // Reads once more. Answers in any case and never inside the call; Errc::timed_out after
  // kPatience, Errc::busy if too many wait. Those who ask while a reading is under way share the
  // next one.
  void fresh(Answer);

  // Hears every kPeriod for as long as it lives; the worker's delays make it rarer, not later. The
  // subscription may outlive this.
  Subscription listen(Heard);
  std::size_t listeners() const { return listeners_.size(); }

 private:
  void look();
  void poll();
  void ask();
  void hear(Energies);
  void give_up();
  static void tell(const std::vector<Answer>&, const Result<Energies>&);

  Loop& loop_;
  Worker& worker_;
  std::shared_ptr<Rapl> rapl_;  // touched on the worker's thread alone
  Energies latest_;
  bool asked_ = false;          // and nothing was heard yet
  std::vector<Answer> flight_;  // who wait for what was asked
  std::vector<Answer> next_;    // who came meanwhile
  std::map<std::uint64_t, Heard> listeners_;
  std::uint64_t next_listener_ = 1;
  Subscription patience_;
  Subscription look_timer_;
  Subscription poll_timer_;
  // Callbacks that come after the watch has gone find this empty.
  Lifetime here_;
};

// The power of CPU packages: the energy between two readings over the time between them.

struct PackagePower {
  std::uint32_t number = 0;
  Result<std::int64_t> milliwatts;
  std::optional<Result<std::int64_t>> dram_milliwatts;  // nothing: it does not count its memory
};

// Of every package of the later reading.
std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later);

}  // namespace gpuyard::cpu
