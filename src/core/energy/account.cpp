#include "core/energy/account.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::energy {
namespace {

// mW x ns in a millijoule.
constexpr std::int64_t kMilliwattNanoseconds = 1'000'000'000;

std::int64_t max_energy_mj(Duration time, const Session& session) {
  if (session.simulated) return INT64_MAX;
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(time + Account::kMaxCounterLag).count();
  constexpr std::int64_t kMillijoulesPerSecond = Account::kMaxWatts * 1000;
  return seconds * kMillijoulesPerSecond;
}

std::optional<std::int64_t> plausible_power(std::optional<std::int64_t> power_mw) {
  constexpr std::int64_t kMaxMilliwatts = Account::kMaxWatts * 1000;
  return power_mw && *power_mw >= 0 && *power_mw <= kMaxMilliwatts ? power_mw : std::nullopt;
}

bool is_other_session(const Session& now, const Session& before) {
  const bool both_known = !now.driver.empty() && !before.driver.empty();
  return now.boot_id != before.boot_id || (both_known && now.driver != before.driver);
}

// Returns whether the GPU will never have a counter. Other reasons for a missing reading pass.
bool is_unsupported(const Missing& missing) {
  return missing.reason == MissingReason::not_supported ||
         missing.reason == MissingReason::no_permission;
}

}  // namespace

std::optional<EnergyReading> energy_reading_of(const Sample& sample) {
  const Reading* const counter = sample.find(Metric::energy_total);
  const Reading* const power = sample.find(Metric::power_draw);
  EnergyReading out;
  if (counter != nullptr && counter->number() != nullptr) {
    out.counter_mj = *counter->number();
    out.taken = counter->taken;
  }
  if (power != nullptr && power->number() != nullptr) {
    out.power_mw = plausible_power(*power->number());
    if (!out.counter_mj) out.taken = power->taken;
  }
  const Missing* const why = counter != nullptr ? counter->missing() : nullptr;
  out.has_counter = why == nullptr || !is_unsupported(*why);
  return out.counter_mj || out.power_mw ? std::optional(out) : std::nullopt;
}

std::string missing_energy_reason(const Sample& sample) {
  if (energy_reading_of(sample)) return "";
  const auto why = [&](Metric metric) {
    const Reading* const reading = sample.find(metric);
    const Missing* const missing = reading != nullptr ? reading->missing() : nullptr;
    if (missing != nullptr) return describe(*missing);
    return std::string(reading != nullptr ? "its value is impossible" : "not read yet");
  };
  const std::string counter = why(Metric::energy_total);
  const std::string power = why(Metric::power_draw);
  if (counter == power) return "neither an energy counter nor power: " + counter;
  return fmt::format("energy counter: {}; power: {}", counter, power);
}

Account::Account(const EnergyReading& first, Session session, WallTime wall)
    : state_{std::move(session), 1, wall, wall, 0, first.taken, wall, first.counter_mj, {}},
      power_mw_(plausible_power(first.power_mw)) {}

// Returns whether the counter is only missing for now, and will cover this time when it is back.
bool Account::is_awaiting_counter(const EnergyReading& now) const {
  return !now.counter_mj && now.has_counter && state_.counter_mj;
}

void Account::record(const EnergyReading& now, const Session& session, WallTime wall) {
  if (now.taken <= state_.last_reading_at || is_awaiting_counter(now)) return;
  const Duration step = now.taken - state_.last_reading_at;
  const bool counted = now.counter_mj && state_.counter_mj;
  const bool started_over = is_other_session(session, state_.session) ||
                            (counted && *now.counter_mj < *state_.counter_mj);
  if (started_over) {
    begin_epoch(wall);
    state_.amounts.unknown += step;
    power_mw_.reset();
    // The counter started at zero at some time since the last reading.
    if (counted && *now.counter_mj <= max_energy_mj(step, session)) book(*now.counter_mj);
  } else if (now.contradicted) {
    state_.amounts.unknown += step;
  } else if (counted) {
    count(*now.counter_mj - *state_.counter_mj, step, wall);
  } else {
    // The step before a counter appears is still integrated power. If a counter goes and returns,
    // its growth over the time that was estimated meanwhile is not added.
    integrate(now, step, session.max_step);
  }
  state_.session.boot_id = session.boot_id;
  if (!session.driver.empty()) state_.session.driver = session.driver;
  state_.last_reading_at = now.taken;
  state_.last_reading_wall = wall;
  state_.counter_mj = now.counter_mj;
  power_mw_ = plausible_power(now.power_mw);
  resumed_ = false;
}

void Account::count(std::int64_t growth_mj, Duration step, WallTime wall) {
  if (growth_mj <= max_energy_mj(step, state_.session)) return book(growth_mj);
  begin_epoch(wall);
  state_.amounts.unknown += step;
}

void Account::integrate(const EnergyReading& now, Duration step, Duration max_step) {
  const auto power_mw = plausible_power(now.power_mw);
  if (!power_mw_ || !power_mw || step > max_step) {
    state_.amounts.unknown += step;
    return;
  }
  // The trapezoid is doubled, so that halving it loses nothing.
  remainder_ += (*power_mw_ + *power_mw) * step.count();
  const std::int64_t energy_mj = remainder_ / (2 * kMilliwattNanoseconds);
  remainder_ %= 2 * kMilliwattNanoseconds;
  state_.amounts.estimated_mj += energy_mj;
  book(energy_mj);
}

void Account::book(std::int64_t energy_mj) {
  Amounts& amounts = state_.amounts;
  (resumed_ ? amounts.daemon_down_mj : amounts.unattributed_mj) += energy_mj;
}

void Account::begin_epoch(WallTime wall) {
  ++state_.epoch;
  state_.epoch_since = wall;
  state_.epoch_start_mj = state_.amounts.device_mj();
}

void Account::prepend(const AccountState& earlier) {
  const Amounts& before = earlier.amounts;
  if (state_.epoch == 1) {
    state_.epoch_since = earlier.epoch_since;
    state_.epoch_start_mj = earlier.epoch_start_mj;
  } else {
    state_.epoch_start_mj += before.device_mj();
  }
  state_.epoch += earlier.epoch - 1;
  state_.first_seen = earlier.first_seen;
  state_.amounts.unattributed_mj += before.unattributed_mj;
  state_.amounts.daemon_down_mj += before.daemon_down_mj;
  state_.amounts.estimated_mj += before.estimated_mj;
  state_.amounts.unknown += before.unknown;
}

AccountMark Account::mark() const {
  return {state_.amounts.device_mj(), state_.amounts.estimated_mj, state_.amounts.unknown,
          state_.epoch, state_.last_reading_at};
}

}  // namespace gpuyard::energy
