// All accounts and open windows of the node. Pure state: the caller passes the snapshots.
//
// A window measures the energy of some GPUs over a span of time. Each window gets all of a GPU's
// energy, however many windows the GPU has: that is measurement, not attribution.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/energy/account.h"
#include "gpu/device/energy_total.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::energy {

struct WindowGpu {
  std::string uuid;
  AccountMark begin;
  std::optional<std::int64_t> peak_mw;  // the highest power reading since

  friend bool operator==(const WindowGpu&, const WindowGpu&) = default;
};

struct Window {
  std::string id;
  std::string name;  // chosen by the client; may be empty
  uid_t owner = 0;
  std::string boot_id;
  bool simulated = false;  // the window is of simulated GPUs
  TimePoint began_at;
  WallTime began_wall{};
  Duration max_duration{};  // the window is ended after this time, if not before
  std::vector<WindowGpu> gpus;

  TimePoint ends_at() const { return began_at + max_duration; }
  WallTime ends_at_wall() const {
    return began_wall + std::chrono::duration_cast<std::chrono::milliseconds>(max_duration);
  }
  friend bool operator==(const Window&, const Window&) = default;
};

// Convert to the units that users read.
constexpr double joules_of(std::int64_t millijoules) {
  return static_cast<double>(millijoules) / 1000.0;
}
inline double seconds_of(Duration time) {
  // Whole milliseconds: more digits would be noise.
  return static_cast<double>(to_milliseconds(time)) / 1000.0;
}

struct GpuResult {
  std::string uuid;
  std::int64_t energy_mj = 0;
  Duration length{};   // between the readings at its two edges
  Duration unknown{};  // the part of it whose energy is not, or not wholly, known
  bool estimated = false;
  std::uint64_t epochs_crossed = 0;  // not 0: interrupted, and the energy is of the known parts
  std::optional<std::int64_t> peak_mw;
  Duration age{};     // of the reading at the end
  bool known = true;  // false: nothing is known of its energy, which is not 0 then

  // Whether the energy is of a part of the window only, or not known at all.
  bool is_partial() const;
};

struct WindowResult {
  Window window;
  Duration length{};
  std::vector<GpuResult> gpus;

  std::int64_t energy_mj() const;  // of the GPUs of which something is known
  bool is_known() const;           // of one GPU at least
  bool is_partial() const;         // the result of one GPU is
};

// A shorter time without a reading makes no result partial: readings lag behind a window's edges.
inline constexpr Duration kMinNoticeableGap = std::chrono::seconds(1);

// The shortest time over which a mean power is reported. A driver counts energy in steps of 20 to
// 100 ms: a mean over less time would show the step.
inline constexpr Duration kMinMeanDuration = std::chrono::milliseconds(500);

// Returns the mean power over the known time; nothing if that is shorter than kMinMeanDuration.
std::optional<double> mean_watts(const GpuResult&);
std::optional<double> peak_watts(const GpuResult&);

GpuResult result_of(const WindowGpu&, const AccountMark& end, TimePoint now);

// One account as it is stored between two runs of the daemon.
struct SavedAccount {
  std::string uuid;
  AccountState state;

  friend bool operator==(const SavedAccount&, const SavedAccount&) = default;
};

struct LedgerState {
  std::vector<SavedAccount> accounts;
  std::vector<Window> windows;

  friend bool operator==(const LedgerState&, const LedgerState&) = default;
};

// The changes since the last save.
struct EnergyTransaction {
  bool everything = false;  // true: windows that are not in `state` are gone
  LedgerState state;
  std::vector<std::string> ended_windows;  // ids of windows
};

// Keeps the accounts and windows on the disk.
//
// Thread: io; the work is done elsewhere, in the order of the calls. A call returns false, and does
// nothing, if too much waits already. A callback never runs inside the call it was given to.
class EnergyStorage {
 public:
  virtual ~EnergyStorage() = default;
  virtual bool load(std::function<void(Result<LedgerState>)> on_loaded) = 0;
  // Reports when the changes are on the disk, or why not.
  virtual bool save(EnergyTransaction, std::function<void(const Result<void>&)> on_saved) = 0;
  // Describes what is wrong with the storage, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;
};

// The probes whose readings make an account.
inline constexpr ProbeSet kEnergyProbes = {Probe::energy, Probe::power};

struct WindowRequest {
  // Names as in find_device(); empty: all GPUs that are not lost. The window says of a GPU that
  // has neither a counter nor power that its energy is not known.
  std::vector<std::string> gpus = {};
  std::string name = {};
  uid_t owner = 0;
  Duration max_duration = std::chrono::hours(24);
  bool privileged = false;  // of an administrator
};

class Ledger {
 public:
  static constexpr std::size_t kMaxWindows = 256;
  static constexpr std::size_t kMaxWindowsPerOwner = 64;
  static constexpr std::size_t kReservedForAdmins = 32;  // in addition, reserved for administrators
  static constexpr std::size_t kMaxAccounts = 1024;      // GPUs come and go over the years
  static constexpr std::size_t kMaxNameLength = 64;
  static constexpr Duration kMinWindowDuration = std::chrono::seconds(1);
  static constexpr Duration kMaxWindowDuration = std::chrono::hours(30 * 24);

  explicit Ledger(std::string boot_id) : boot_id_(std::move(boot_id)) {}

  // Books the newer readings of a snapshot that has the rows of kEnergyProbes.
  void record(const Snapshot&);

  // Errors: invalid, not_found, busy (too many), unavailable (no GPU, no driver).
  Result<std::string> begin(const WindowRequest&, const Snapshot& edge);
  // Finds a window by its id; Errc::not_found.
  Result<const Window*> find(std::string_view id) const;
  Result<WindowResult> result(std::string_view id, TimePoint now) const;
  std::vector<WindowResult> results(TimePoint now) const;  // by id
  Result<WindowResult> end(std::string_view id, TimePoint now);
  // Ends the windows whose time is over, and returns their results.
  std::vector<WindowResult> end_overdue(TimePoint now);

  // Returns all accounts by UUID, also those of absent and of simulated GPUs.
  std::vector<SavedAccount> accounts() const;

  // Returns nothing if the GPU was not read yet.
  std::optional<EnergyTotal> booked_energy(std::string_view uuid, bool simulated) const;

  // Puts the accounts of an earlier daemon before those that exist already.
  void restore(LedgerState, TimePoint now, WallTime);
  // Returns the changes since the last call; after mark_all_changed(), all there is.
  EnergyTransaction take_transaction();
  void mark_all_changed() { all_changed_ = true; }

 private:
  struct FirstReading {
    EnergyReading reading;
    Session session;
    WallTime wall;
  };
  struct Entry {
    std::string uuid;
    Account account;
    std::optional<FirstReading> first;  // of this run; empty once the saved accounts are restored
    std::optional<std::int64_t> power_mw = {};
    TimePoint power_taken_at = {};
    // At its first reading in this run; empty: none yet.
    std::optional<Amounts> initial_amounts = {};
  };
  struct OpenWindow {
    Window window;
    // Of window.gpus, in the same order; kNoEntry: no reading yet.
    std::vector<std::size_t> entries;
    bool changed = true;
  };

  static constexpr std::size_t kNoEntry = SIZE_MAX;

  void join_windows(std::size_t entry_index);
  std::size_t entry_index_of(std::string_view uuid, bool simulated) const;  // kNoEntry: none
  void record(const DeviceState&, const Session&, WallTime);
  void update_peaks();
  Result<void> check_request(const WindowRequest&) const;
  Result<std::vector<const DeviceState*>> gpus_of(const WindowRequest&, const Snapshot&) const;
  WindowResult result_of_open(const OpenWindow&, TimePoint now) const;
  void restore(SavedAccount);
  void shift_marks(std::size_t entry_index, const AccountState& earlier);

  std::string boot_id_;
  std::vector<Entry> entries_;  // never removed
  std::map<std::string, OpenWindow, std::less<>> windows_;
  std::vector<std::string> ended_windows_;
  bool all_changed_ = false;
  bool restored_ = false;
};

}  // namespace gpuyard::energy
