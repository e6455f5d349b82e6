// One GPU's energy: what its counter grew by, or its power over time where it has no counter. Pure
// state in whole millijoules: it is told readings and neither asks nor waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "device/reading.h"

namespace gpuyard::energy {

// What one GPU said at one moment.
struct Observation {
  TimePoint taken;
  std::optional<std::int64_t> counter_mj;  // since the driver was loaded or the GPU reset
  bool has_counter = true;  // false: the GPU says that it has none, so that power is all there is
  std::optional<std::int64_t> power_mw;
};

// Nothing: the sample has neither.
std::optional<Observation> observation_of(const Sample&);

// Within one session a counter does not start over, unless the GPU is reset or the same driver is
// loaded anew: those are told by the drop.
struct Session {
  std::string boot_id = {};
  std::string driver = {};  // its version; empty: not told, which is no other
  bool simulated = false;   // or replayed: accounts of such GPUs are apart, whatever their UUID

  friend bool operator==(const Session&, const Session&) = default;
};

// They only grow. Each millijoule is in exactly one account; more accounts come with leases.
struct Amounts {
  std::int64_t unattributed_mj = 0;
  std::int64_t daemon_down_mj = 0;  // counted by the GPU while nobody was there to attribute it
  std::int64_t estimated_mj = 0;    // of all these, what is integrated power
  Duration unknown{};               // time of which the energy is not, or not wholly, known

  std::int64_t device_mj() const { return unattributed_mj + daemon_down_mj; }
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

// An epoch is a stretch of time in which the counter neither started over nor jumped.
struct AccountState {
  Session session = {};
  std::uint64_t epoch = 1;  // counts up
  WallTime first_seen{};
  WallTime epoch_since{};
  std::int64_t epoch_start_mj = 0;  // Amounts::device_mj() at that time
  TimePoint last = {};              // the last reading
  WallTime last_wall{};
  std::optional<std::int64_t> counter_mj = {};  // at that reading; nothing: power is integrated
  Amounts amounts = {};

  friend bool operator==(const AccountState&, const AccountState&) = default;
};

// An account at the edge of a window.
struct Mark {
  std::int64_t device_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};
  std::uint64_t epoch = 1;
  TimePoint taken;  // of the account's last reading

  friend bool operator==(const Mark&, const Mark&) = default;
};

class Account {
 public:
  // Power is integrated over at most so long a step. A longer one is unknown.
  static constexpr Duration kLongestStep = std::chrono::seconds(5);
  // No GPU draws more: a counter that grows faster has jumped. But simulated time may be fast.
  static constexpr std::int64_t kMostWatts = 10'000;
  // A counter may lag behind by so much, and catch up at once.
  static constexpr Duration kCounterLag = std::chrono::seconds(1);

  // A GPU that was never seen before: its counter begins to matter now.
  Account(const Observation& first, Session, WallTime);
  // As an earlier daemon left it: what its counter grew by until the first reading was used while
  // that daemon was down.
  explicit Account(AccountState earlier) : state_(std::move(earlier)), resumed_(true) {}

  // Readings that are not newer than the last are ignored.
  void observe(const Observation&, const Session&, WallTime);
  // Another account of the same GPU, whose readings are all older, comes before this one.
  void precede(const AccountState& earlier);

  const AccountState& state() const { return state_; }
  Mark mark() const;

 private:
  bool waits_for_counter(const Observation&) const;
  void count(std::int64_t growth_mj, Duration step, WallTime);
  void integrate(const Observation&, Duration step);
  void book(std::int64_t energy_mj);
  void begin_epoch(WallTime);

  AccountState state_;
  std::optional<std::int64_t> power_mw_;  // at the last reading
  std::int64_t carry_ = 0;                // integrated, and less than a millijoule
  bool resumed_ = false;                  // no reading of this daemon's life yet
};

}  // namespace gpuyard::energy
