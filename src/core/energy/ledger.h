// All accounts and open windows of the node. Pure state, like the accounts: it is told snapshots.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/snapshot.h"
#include "energy/account.h"

namespace gpuyard::energy {

// A stretch of time of some GPUs, and what they used in it. A window is told all of a GPU's energy,
// however many windows of it there are: that is measurement, not attribution.

struct WindowGpu {
  std::string uuid;
  Mark begin;
  std::optional<std::int64_t> peak_mw;  // the highest power reading since

  friend bool operator==(const WindowGpu&, const WindowGpu&) = default;
};

struct Window {
  std::string id;
  std::string name;  // of whoever began it; may be empty
  uid_t owner = 0;
  std::string boot_id;
  bool simulated = false;  // it is of such GPUs
  TimePoint began;
  WallTime began_wall{};
  Duration most{};  // then it is ended, if it was not before
  std::vector<WindowGpu> gpus;

  TimePoint ends() const { return began + most; }
  WallTime ends_wall() const {
    return began_wall + std::chrono::duration_cast<std::chrono::milliseconds>(most);
  }
  friend bool operator==(const Window&, const Window&) = default;
};

struct GpuResult {
  std::string uuid;
  std::int64_t energy_mj = 0;
  Duration length{};   // between the readings at its two edges
  Duration unknown{};  // of that, time of which the energy is not, or not wholly, known
  bool estimated = false;
  std::uint64_t epochs_crossed = 0;  // not 0: interrupted, and the energy is of the known parts
  std::optional<std::int64_t> peak_mw;
  Duration age{};  // of the reading at the end
};

struct WindowResult {
  Window window;
  Duration length{};
  std::vector<GpuResult> gpus;
};

// A driver counts energy in steps of 20 to 100 ms: over less than this a mean would be the step.
inline constexpr Duration kShortestMean = std::chrono::milliseconds(500);

// Over the time that is known; nothing if that is too short to tell.
std::optional<double> mean_watts(const GpuResult&);

GpuResult result_of(const WindowGpu&, const Mark& end, TimePoint now);

// What is kept of energy between two lives of the daemon, and who keeps it.

struct KeptAccount {
  std::string uuid;
  AccountState state;

  friend bool operator==(const KeptAccount&, const KeptAccount&) = default;
};

struct Books {
  std::vector<KeptAccount> accounts;
  std::vector<Window> windows;

  friend bool operator==(const Books&, const Books&) = default;
};

// What has changed since the books were last kept.
struct Changes {
  bool everything = false;  // windows that are not among `now` are gone
  Books now;
  std::vector<std::string> ended;  // ids of windows
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first.
// False, and nothing happens: too much waits already. A callback never runs inside the call it was
// given to.
class EnergyArchive {
 public:
  virtual ~EnergyArchive() = default;
  virtual bool load(std::function<void(Result<Books>)> loaded) = 0;
  // Tells when it is on the disk, or why not.
  virtual bool save(Changes, std::function<void(const Result<void>&)> saved) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;
};

// The rows an account is made of.
inline constexpr ProbeSet kEnergyProbes = {Probe::energy, Probe::power};

struct WindowWish {
  std::vector<std::string> gpus = {};  // names as in find_device(); none: all that can be read
  std::string name = {};
  uid_t owner = 0;
  Duration most = std::chrono::hours(24);
};

// What was booked of one GPU from its first reading in this daemon's life on. Only grows, also when
// the books of an earlier daemon are adopted.
struct Booked {
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};
  TimePoint taken;  // of the account's last reading

  friend bool operator==(const Booked&, const Booked&) = default;
};

class Ledger {
 public:
  static constexpr std::size_t kMostWindows = 256;
  static constexpr std::size_t kMostWindowsOfOne = 64;
  static constexpr std::size_t kMostAccounts = 1024;  // GPUs come and go over the years
  static constexpr std::size_t kLongestName = 64;
  static constexpr Duration kShortestWindow = std::chrono::seconds(1);
  static constexpr Duration kLongestWindow = std::chrono::hours(30 * 24);

  explicit Ledger(std::string boot_id) : boot_id_(std::move(boot_id)) {}

  // Any snapshot with the rows of kEnergyProbes, old readings and new.
  void observe(const Snapshot&);

  // Errors: invalid, not_found, busy (too many), unavailable (nothing was read of a named GPU).
  Result<std::string> begin(const WindowWish&, const Snapshot& edge);
  // By id; Errc::not_found.
  Result<const Window*> find(std::string_view id) const;
  Result<WindowResult> result(std::string_view id, TimePoint now) const;
  std::vector<WindowResult> results(TimePoint now) const;  // by id
  Result<WindowResult> end(std::string_view id, TimePoint now);
  // Ends those that are over, and gives their results.
  std::vector<WindowResult> end_overdue(TimePoint now);

  // By UUID; also of GPUs that are not there now, and of simulated ones.
  std::vector<KeptAccount> accounts() const;

  // Nothing: it was not read yet.
  std::optional<Booked> booked(std::string_view uuid, bool simulated) const;

  // What was kept by an earlier daemon comes before what is here already.
  void adopt(Books, TimePoint now, WallTime);
  // What save() has not had yet. After keep_everything() that is all.
  Changes take_changes();
  void keep_everything() { everything_ = true; }

 private:
  struct First {
    Observation observation;
    Session session;
    WallTime wall;
  };
  struct Entry {
    std::string uuid;
    Account account;
    std::optional<First> first;  // of this life; nothing once the books are adopted
    std::optional<std::int64_t> power_mw = {};
    TimePoint power_taken = {};
    std::optional<Amounts> before = {};  // at its first reading in this life; nothing: none yet
  };
  struct Open {
    Window window;
    std::vector<std::size_t> entries;  // of window.gpus, in the same order
    bool changed = true;
  };

  std::size_t place_of(std::string_view uuid, bool simulated) const;  // entries_.size(): none
  void observe(const DeviceState&, const Session&, WallTime);
  void note_peaks();
  Result<void> check(const WindowWish&) const;
  Result<std::vector<std::size_t>> gpus_of(const WindowWish&, const Snapshot&) const;
  WindowResult result_of_open(const Open&, TimePoint now) const;
  void adopt(KeptAccount);
  void shift_marks(std::size_t entry, const AccountState& earlier);

  std::string boot_id_;
  std::vector<Entry> entries_;  // never removed
  std::map<std::string, Open, std::less<>> windows_;
  std::vector<std::string> ended_;
  bool everything_ = false;
  bool adopted_ = false;
};

}  // namespace gpuyard::energy
