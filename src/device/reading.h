// A reading is a value or the reason there is none; never a made-up number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "device/metric.h"

namespace gpuyard {

enum class MissingReason : std::uint8_t {
  not_supported,  // this GPU or driver does not report it
  no_permission,
  device_lost,  // the GPU fell off the bus or wants a reset
  driver_gone,  // the driver was unloaded or replaced under us: only a new session helps
  timed_out,    // the driver call did not come back by our deadline
  not_ready,    // nothing has been read yet
  failed,       // the driver said something else; detail has its words
};
BOOST_DESCRIBE_ENUM(MissingReason, not_supported, no_permission, device_lost, driver_gone,
                    timed_out, not_ready, failed)

struct Missing {
  MissingReason reason = MissingReason::not_ready;
  std::string detail;  // for people, e.g. the driver's error text

  friend bool operator==(const Missing&, const Missing&) = default;
};
BOOST_DESCRIBE_STRUCT(Missing, (), (reason, detail))

// "GPU is lost" or, without a detail, the reason's own words.
std::string describe(const Missing&);

struct Reading {
  Metric metric{};
  std::uint16_t index = 0;  // which fan, link or location; 0 for rows without a dimension
  TimePoint taken;          // just before the driver was asked
  std::variant<Missing, std::int64_t, std::string> value;

  const std::int64_t* number() const { return std::get_if<std::int64_t>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  const Missing* missing() const { return std::get_if<Missing>(&value); }

  friend bool operator==(const Reading&, const Reading&) = default;
};
BOOST_DESCRIBE_STRUCT(Reading, (), (metric, index, taken, value))

// Readings of one GPU, sorted by (metric, index), each pair once.
class Sample {
 public:
  // Adds or replaces.
  void set(Reading);
  void merge(const Sample& newer);
  const Reading* find(Metric, std::uint16_t index = 0) const;
  // The number, or nullptr where it is missing for whatever reason.
  const std::int64_t* number(Metric, std::uint16_t index = 0) const;

  const std::vector<Reading>& readings() const { return readings_; }

  friend bool operator==(const Sample&, const Sample&) = default;

 private:
  std::vector<Reading> readings_;
};

// Every row that `probes` fill, missing for one reason.
Sample missing_sample(ProbeSet probes, const Missing& why, TimePoint taken);

}  // namespace gpuyard
