// Puts the answers of one probe's driver calls into a sample.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gpu/device/catalog.h"
#include "gpu/device/metric.h"
#include "gpu/device/plausible.h"
#include "gpu/device/reading.h"
#include "gpu/nvml/api.h"

namespace gpuyard::nvml {

// Remembers what this GPU with this driver does not support. Asking again costs a driver call each
// time, under a lock that all clients share, so the driver is asked again only now and then.
class SupportCache {
 public:
  // The time for which "not supported" is remembered; a change of mode may bring a reading back.
  static constexpr Duration kRetryDelay = std::chrono::minutes(10);

  bool is_unsupported(Metric metric, TimePoint now) const {
    const auto known = retry_at_.find(metric);
    return known != retry_at_.end() && now < known->second;
  }
  void record_unsupported(Metric metric, TimePoint now) { retry_at_[metric] = now + kRetryDelay; }

 private:
  std::map<Metric, TimePoint> retry_at_;
};

// True for "not available": the driver answers all ones, which a larger type may hold widened.
template <std::integral Number>
constexpr bool is_no_value(Number number) {
  constexpr auto kWidened = std::numeric_limits<std::uint32_t>::max();
  return number == std::numeric_limits<Number>::max() || std::cmp_equal(number, kWidened);
}

// Make it before the call: a reading's time is when the driver was queried.
class Recorder {
 public:
  Recorder(SupportCache& support, Sample& sample, TimePoint now = BootClock::now())
      : support_(support), sample_(sample), taken_(now) {}

  // Records a number, if it is within the bounds that the catalog has for it.
  template <std::integral Number>
  void value(Metric metric, Number number, std::uint16_t index = 0) {
    constexpr auto kMaxNumber = std::numeric_limits<std::int64_t>::max();
    if (is_no_value(number) || std::cmp_greater(number, kMaxNumber)) {
      return implausible(metric, index);
    }
    sample_.set(reject_implausible({metric, index, taken_, static_cast<std::int64_t>(number)}));
  }
  // Records a mask. Its bits are not a number: each of them may be set, also one that is not known.
  void flags(Metric metric, std::uint64_t bits) {
    sample_.set({metric, 0, taken_, std::bit_cast<std::int64_t>(bits)});
  }
  void text(Metric metric, std::string words) {
    sample_.set({metric, 0, taken_, std::move(words)});
  }

  void missing(Metric metric, Missing why, std::uint16_t index = 0) {
    sample_.set({metric, index, taken_, std::move(why)});
  }
  void missing(Metric metric, ReturnCode code, std::uint16_t index = 0) {
    missing(metric, missing_of(code), index);
  }
  void implausible(Metric metric, std::uint16_t index = 0) {
    missing(metric, {MissingReason::failed, kImplausible}, index);
  }
  // Marks every row of a probe as missing.
  template <class Why>
  void missing(Probe probe, const Why& why) {
    for (const Metric metric : row_of(probe).fills) missing(metric, why);
  }

  // Queries one row, unless it is known that this GPU has none.
  template <class Number, class Call>
  void query(Metric metric, Call call) {
    Number number{};
    if (try_query(metric, [&] { return call(&number); })) value(metric, number);
  }
  template <class Number>
  void query(Metric metric, const nvml::Call<DeviceHandle, Number*>& call, DeviceHandle device) {
    query<Number>(metric, [&](Number* number) { return call(device, number); });
  }

  // Records the result of a call that was to return a number.
  template <std::integral Number>
  void answer(Metric metric, ReturnCode code, Number number, std::uint16_t index = 0) {
    code == kSuccess ? value(metric, number, index) : missing(metric, code, index);
  }
  // Makes the call that fills these rows and returns whether it succeeded; if not, each row says
  // why. Remembers "not supported" under the first row.
  template <class Call>
  bool try_query(std::span<const Metric> rows, Call call) {
    const Metric first = rows.front();
    const ReturnCode code =
        support_.is_unsupported(first, taken_) ? kNotSupported : record_support(first, call());
    if (code == kSuccess) return true;
    for (const Metric metric : rows) missing(metric, code);
    return false;
  }
  template <class Call>
  bool try_query(Metric row, Call call) {
    return try_query(std::span(&row, 1), call);
  }

  TimePoint taken() const { return taken_; }
  Sample& sample() { return sample_; }

 private:
  ReturnCode record_support(Metric metric, ReturnCode code) {
    if (code == kNotSupported) support_.record_unsupported(metric, taken_);
    return code;
  }

  SupportCache& support_;
  Sample& sample_;
  TimePoint taken_;
};

}  // namespace gpuyard::nvml
