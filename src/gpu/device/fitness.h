// Decides whether a GPU may get new work. Unknown is a verdict of its own: a GPU without a value
// that should be known gets no new work, and raises no alarm either.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "gpu/device/snapshot.h"

namespace gpuyard {

// The result of every decision about a GPU. A switch over it names all three, or does not compile.
enum class Verdict : std::uint8_t { good, bad, unknown };
BOOST_DESCRIBE_ENUM(Verdict, good, bad, unknown)

struct Fitness {
  Verdict verdict = Verdict::unknown;
  // The reason why it is not good: as a word (lost, unresponsive, unhealthy, mig_enabled, unknown),
  // and as a sentence. Both are empty if it is.
  std::string word = {};
  std::string why = {};

  friend bool operator==(const Fitness&, const Fitness&) = default;
};

// Evaluates the GPU by its present readings. A reading that the board or its driver does not have
// takes nothing away; one that failed, or was not taken yet, makes the verdict unknown.
Fitness fitness_of(const DeviceState&);

// Returns which of the readings that a verdict rests on are unknown, and why; "" if none is.
std::string unknown_readings(const DeviceState&);

// Returns which of the readings that a verdict rests on have failed, and why; "" if none has.
// Unlike fitness_of(), it ignores readings that were never requested.
std::string failed_readings(const DeviceState&);

// The time without a reading after which a GPU is sick.
inline constexpr Duration kSickTimeout = std::chrono::seconds(30);

// True if the GPU cannot be used, and has not been usable for some time: it is lost, could not be
// opened, or has given none of kVitals for kSickTimeout. A reading that fails once is not enough.
bool is_sick(const DeviceState&, TimePoint now);

}  // namespace gpuyard
