// One GPU's energy: the growth of its counter, or its power over time where it has no counter. Pure
// state in whole millijoules: the caller passes the readings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "gpu/device/catalog.h"
#include "gpu/device/reading.h"

namespace gpuyard::energy {

// The readings of one GPU at one moment.
struct EnergyReading {
  TimePoint taken;
  std::optional<std::int64_t> counter_mj;  // since the driver was loaded or the GPU reset
  bool has_counter = true;  // false: the GPU says that it has none, and only power is left
  std::optional<std::int64_t> power_mw;
  bool contradicted = false;  // counter and power contradict each other: neither is believed
};

// Returns nothing if the sample has neither counter nor power.
std::optional<EnergyReading> energy_reading_of(const Sample&);
// Returns why the sample has neither; "" if it has one of them.
std::string missing_energy_reason(const Sample&);

// Within one session a counter does not start over, unless the GPU is reset or the same driver is
// loaded again: the drop of the counter shows both.
struct Session {
  std::string boot_id = {};
  std::string driver = {};  // its version; empty: unknown, which does not end a session
  bool simulated = false;   // or replayed: such GPUs have separate accounts, whatever their UUID
  // The longest step between two readings over which power is integrated. The energy of a longer
  // one is unknown.
  Duration max_step = std::chrono::seconds(5);

  friend bool operator==(const Session&, const Session&) = default;
};

// The booked energy, which only grows. Each millijoule is in exactly one account; more accounts
// come with leases.
struct Amounts {
  std::int64_t unattributed_mj = 0;
  std::int64_t daemon_down_mj = 0;  // counted by the GPU while no daemon ran to attribute it
  std::int64_t estimated_mj = 0;    // the part of all these that is integrated power
  Duration unknown{};               // time whose energy is not, or not wholly, known

  std::int64_t device_mj() const { return unattributed_mj + daemon_down_mj; }
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

// An epoch is a span of time in which the counter neither started over nor jumped.
struct AccountState {
  Session session = {};
  std::uint64_t epoch = 1;  // counts up
  WallTime first_seen{};
  WallTime epoch_since{};
  std::int64_t epoch_start_mj = 0;  // Amounts::device_mj() at that time
  TimePoint last_reading_at = {};   // the last reading
  WallTime last_reading_wall{};
  std::optional<std::int64_t> counter_mj = {};  // at that reading; empty: power is integrated
  Amounts amounts = {};

  friend bool operator==(const AccountState&, const AccountState&) = default;
};

// An account at the edge of a window.
struct AccountMark {
  std::int64_t device_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};
  std::uint64_t epoch = 1;
  TimePoint taken;  // of the account's last reading

  friend bool operator==(const AccountMark&, const AccountMark&) = default;
};

class Account {
 public:
  // A counter that grows faster than this has jumped, and a power beyond it is not integrated: no
  // GPU draws more. The counters of simulated GPUs are exempt, because their time may run fast.
  static constexpr std::int64_t kMaxWatts = kMaxBoardWatts;
  // A counter may lag behind by this much, and then catch up at once.
  static constexpr Duration kMaxCounterLag = std::chrono::seconds(1);

  // Begins the account of a new GPU: only the growth of its counter from now on is booked.
  Account(const EnergyReading& first, Session, WallTime);
  // Continues the account of an earlier daemon. The growth of the counter until the first reading
  // is booked as daemon_down_mj.
  explicit Account(AccountState earlier) : state_(std::move(earlier)), resumed_(true) {}

  // Readings that are not newer than the last are ignored.
  void record(const EnergyReading&, const Session&, WallTime);
  // Puts another account of the same GPU, whose readings are all older, before this one.
  void prepend(const AccountState& earlier);

  const AccountState& state() const { return state_; }
  AccountMark mark() const;

 private:
  bool is_awaiting_counter(const EnergyReading&) const;
  void count(std::int64_t growth_mj, Duration step, WallTime);
  void integrate(const EnergyReading&, Duration step, Duration max_step);
  void book(std::int64_t energy_mj);
  void begin_epoch(WallTime);

  AccountState state_;
  std::optional<std::int64_t> power_mw_;  // at the last reading
  std::int64_t remainder_ = 0;            // integrated rest of less than a millijoule
  bool resumed_ = false;                  // no reading of this daemon yet
};

}  // namespace gpuyard::energy
