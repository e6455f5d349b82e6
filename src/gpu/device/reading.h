// A reading is a value or the reason why there is none; it is never a made-up number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "gpu/device/metric.h"
#include "gpu/device/process.h"

namespace gpuyard {

struct Reading {
  Metric metric{};
  std::uint16_t index = 0;  // which fan, link or location; 0 for rows without a dimension
  TimePoint taken;          // just before the driver was queried
  std::variant<Missing, std::int64_t, std::string> value;

  const std::int64_t* number() const { return std::get_if<std::int64_t>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  const Missing* missing() const { return std::get_if<Missing>(&value); }

  friend bool operator==(const Reading&, const Reading&) = default;
};
BOOST_DESCRIBE_STRUCT(Reading, (), (metric, index, taken, value))

// Readings of one GPU, sorted by (metric, index), each pair once; and its list of processes.
class Sample {
 public:
  Sample() = default;
  // In any order; of two readings of the same row and index the last one counts.
  explicit Sample(std::vector<Reading>);

  void reserve(std::size_t readings) { readings_.reserve(readings); }
  // Adds or replaces.
  void set(Reading);
  void set(ProcessList list) { processes_ = std::move(list); }
  // The readings of a metric in `newer` replace all earlier ones of it, so a fan that is gone
  // disappears.
  void merge(const Sample& newer);
  // Moves the times of all readings, and of the list of processes, into this interval.
  void clamp_times(TimePoint earliest, TimePoint latest);
  // Adds what `probes` fill and this sample has not: missing, for this reason.
  void fill_gaps(ProbeSet probes, const Missing& why, TimePoint taken);
  const Reading* find(Metric, std::uint16_t index = 0) const;
  // Returns the number, or nullptr if it is missing for any reason.
  const std::int64_t* number(Metric, std::uint16_t index = 0) const;
  std::optional<std::int64_t> value(Metric) const;
  // Returns nothing if one of the two is missing, or the whole is not above 0.
  std::optional<double> percent_of(Metric part, Metric whole) const;
  // Returns true if this GPU or driver never reports it.
  bool is_unsupported(Metric) const;

  // Returns all readings of a metric, by index; empty if it was never read.
  std::span<const Reading> all(Metric) const;

  const std::vector<Reading>& readings() const { return readings_; }
  // Returns nothing if the list was never read.
  const std::optional<ProcessList>& processes() const { return processes_; }
  // Returns nullptr if the list is missing for any reason.
  const std::vector<GpuProcess>* listed_processes() const {
    return processes_ ? processes_->processes() : nullptr;
  }

  friend bool operator==(const Sample&, const Sample&) = default;

 private:
  bool overwrite(const Sample& newer);

  std::vector<Reading> readings_;
  std::optional<ProcessList> processes_;
};

// Makes a sample of every row that `probes` fill, and the list of processes if they fill it, all
// missing for one reason.
Sample missing_sample(ProbeSet probes, const Missing& why, TimePoint taken);

// The inverse of describe(). Words that are not known become the detail of MissingReason::failed.
Missing missing_from(std::string words);

// Returns the bound in the row's own unit; nothing if there is none or it is unknown now.
// Percentages end at 100.
std::optional<std::int64_t> upper_bound_of(Metric, const Sample&);

}  // namespace gpuyard
