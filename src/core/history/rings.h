// The history in memory of all GPUs, appended to with each snapshot. Pure state. Its heap use has
// a limit for each GPU, whatever the data are.
//
// Thread: io. A Block never changes, and a View is a copy: any thread may read them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/history/block.h"
#include "gpu/device/metric.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::history {

// A closed block of points. It never changes, so that another thread may decode it while this one
// goes on.
struct Block {
  std::shared_ptr<const char[]> bytes;
  std::size_t size = 0;
  std::size_t points = 0;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;

  std::string_view text() const { return {bytes.get(), size}; }
};

// A copy of a part of a ring, which any thread may read.
template <class P>
struct View {
  std::vector<Block> blocks;
  std::vector<P> tail;

  // Returns the points in [from_ms, until_ms).
  std::vector<P> points(std::int64_t from_ms, std::int64_t until_ms) const {
    std::vector<P> out;
    const auto add = [&](const std::vector<P>& some) {
      std::ranges::copy_if(some, std::back_inserter(out), [&](const P& point) {
        return point.at_ms >= from_ms && point.at_ms < until_ms;
      });
    };
    for (const Block& block : blocks) {
      if (const auto some = decode<P>(block.text())) add(*some);  // own bytes: always decodable
    }
    add(tail);
    return out;
  }
};

// The newest points of one series: closed blocks, and a short open tail.
template <class P>
class Ring {
 public:
  // `point` is later than all before it.
  void push(const P& point) {
    tail_.push_back(point);
    if (tail_.size() == kTailPoints) close_tail();
  }

  // Drops only whole blocks, so that some older points are kept.
  void drop_before(std::int64_t at_ms) {
    while (!blocks_.empty() && blocks_.front().last_ms < at_ms) drop_oldest();
    if (blocks_.empty() && !tail_.empty() && tail_.back().at_ms < at_ms) {
      complete_since_ms_ = tail_.back().at_ms + 1;
      tail_.clear();
    }
  }
  // Returns false if there is no closed block.
  bool drop_oldest() {
    if (blocks_.empty()) return false;
    block_bytes_ -= cost_of(blocks_.front());
    complete_since_ms_ = blocks_.front().last_ms + 1;
    blocks_.erase(blocks_.begin());
    return true;
  }

  std::optional<std::int64_t> first_ms() const {
    if (!blocks_.empty()) return blocks_.front().first_ms;
    return tail_.empty() ? std::nullopt : std::optional(tail_.front().at_ms);
  }
  // Returns the time from which no point was dropped.
  std::int64_t complete_since_ms() const { return complete_since_ms_; }
  // Returns the heap use, exact enough to hold a limit.
  std::size_t bytes() const { return block_bytes_ + tail_.capacity() * sizeof(P); }
  std::size_t block_count() const { return blocks_.size(); }

  // Holds all points in [from_ms, until_ms), and some around.
  View<P> view(std::int64_t from_ms, std::int64_t until_ms = INT64_MAX) const {
    View<P> view{{}, tail_};
    std::ranges::copy_if(blocks_, std::back_inserter(view.blocks), [&](const Block& block) {
      return block.last_ms >= from_ms && block.first_ms < until_ms;
    });
    return view;
  }

 private:
  // A longer tail costs more memory for each series; a shorter one packs its block more often.
  static constexpr std::size_t kTailPoints = 30;
  static_assert(kMaxBlockPoints % kTailPoints == 0);

  static std::size_t cost_of(const Block& block) {
    constexpr std::size_t kAllocationOverhead = 32;
    return sizeof(Block) + kAllocationOverhead + block.size;
  }

  void close_tail() {
    std::vector<P> points;
    if (!blocks_.empty() && blocks_.back().points + tail_.size() <= kMaxBlockPoints) {
      if (auto before = decode<P>(blocks_.back().text())) points = *std::move(before);
      block_bytes_ -= cost_of(blocks_.back());
      blocks_.pop_back();
    }
    points.insert(points.end(), tail_.begin(), tail_.end());
    tail_.clear();
    const std::string text = encode(std::span<const P>(points));
    auto bytes = std::make_shared<char[]>(text.size());
    std::memcpy(bytes.get(), text.data(), text.size());
    blocks_.push_back(
        {std::move(bytes), text.size(), points.size(), points.front().at_ms, points.back().at_ms});
    block_bytes_ += cost_of(blocks_.back());
  }

  std::vector<Block> blocks_;  // few enough to move
  std::size_t block_bytes_ = 0;
  std::vector<P> tail_;
  std::int64_t complete_since_ms_ = INT64_MIN;
};

inline constexpr std::int64_t kReadingRetentionMs = std::int64_t{60} * 60 * 1000;
inline constexpr std::int64_t kTenSecondsMs = 10'000;
inline constexpr std::int64_t kTenSecondRetentionMs = 24 * kReadingRetentionMs;
inline constexpr std::int64_t kMinuteMs = 60'000;

// Returns the begin of the span of `length_ms` that holds `at_ms`, whatever the sign.
constexpr std::int64_t span_begin(std::int64_t at_ms, std::int64_t length_ms) {
  const std::int64_t into = at_ms % length_ms;
  return at_ms - (into < 0 ? into + length_ms : into);
}

// A reading that comes this near to its due time is kept as of that time: the loop's jitter of a
// few milliseconds would take more bytes than the values.
inline constexpr std::int64_t kMaxJitterMs = 50;

// One metric of one GPU over time, in memory: each reading for an hour, and aggregates of ten
// seconds for a day.
class Series {
 public:
  Series(Metric metric, std::uint16_t element, std::int64_t cadence_ms)
      : metric_(metric), element_(element), cadence_ms_(cadence_ms) {}

  Metric metric() const { return metric_; }
  std::uint16_t element() const { return element_; }

  // Returns false, and changes nothing, if the reading is not newer than the last, which is usual.
  bool append(std::int64_t taken_ms, std::int64_t value);
  // Drops what is too old at this moment.
  void evict_expired(std::int64_t now_ms);
  // Returns false if there is no block.
  bool drop_oldest_block();

  bool empty() const {
    return !readings_.first_ms() && !ten_second_buckets_.first_ms() &&
           open_bucket_.aggregate.count == 0;
  }
  std::size_t bytes() const {
    return sizeof(Series) + readings_.bytes() + ten_second_buckets_.bytes();
  }
  // Returns the begin of the block that drop_oldest_block() would drop; nothing if there is none.
  std::optional<std::int64_t> oldest_block_ms() const;

  View<Point> readings(std::int64_t from_ms, std::int64_t until_ms = INT64_MAX) const {
    return readings_.view(from_ms, until_ms);
  }
  // Includes the bucket that is still open.
  View<Bucket> ten_second_buckets(std::int64_t from_ms, std::int64_t until_ms = INT64_MAX) const;
  // Times from which each ring holds all that came: the first reading, or the last drop.
  std::int64_t readings_since_ms() const {
    return std::max(first_reading_ms_, readings_.complete_since_ms());
  }
  std::int64_t ten_seconds_since_ms() const {
    return std::max(first_reading_ms_, ten_second_buckets_.complete_since_ms());
  }
  // The same for the minutes that can be made of tens. The storage has the minutes that began
  // before.
  std::int64_t minutes_since_ms() const {
    const bool all = ten_second_buckets_.complete_since_ms() <= first_reading_ms_;
    return span_begin(
        all ? first_reading_ms_ : ten_second_buckets_.complete_since_ms() + kMinuteMs - 1,
        kMinuteMs);
  }

 private:
  Metric metric_;
  std::uint16_t element_;
  std::int64_t cadence_ms_;
  std::int64_t first_reading_ms_ = INT64_MIN;  // the first reading
  std::int64_t taken_ms_ = INT64_MIN;          // of the newest reading
  std::int64_t stored_ms_ = INT64_MIN;         // of the same reading, as it is kept
  Ring<Point> readings_;
  Ring<Bucket> ten_second_buckets_;
  Bucket open_bucket_;
};

// The most heap of one GPU's history, in bytes. A day of an H100 takes a seventh of it
// (docs/performance.md).
inline constexpr std::size_t kMaxBytesPerGpu = std::size_t{8} * 1024 * 1024;
// The largest number of GPUs with a history. GPUs that were exchanged or simulated are evicted
// after a day, or sooner if there are more.
inline constexpr std::size_t kMaxGpus = 128;

class Rings {
 public:
  struct Gpu {
    std::vector<Series> series;  // by metric and element
    std::size_t bytes = 0;
    std::int64_t last_append_ms = 0;

    const Series* find(Metric, std::uint16_t element) const;
  };

  explicit Rings(std::size_t max_bytes_per_gpu = kMaxBytesPerGpu) : max_bytes_(max_bytes_per_gpu) {}

  // Adds the readings that are newer than the last of their series. A GPU that does not answer adds
  // nothing.
  void append(const Snapshot&);

  // Finds a GPU by its UUID; nullptr if nothing is known of it.
  const Gpu* find(const std::string& uuid) const;
  const std::map<std::string, Gpu>& gpus() const { return gpus_; }

 private:
  void append(Gpu&, const Sample&, std::int64_t now_ms);
  void enforce_limit(Gpu&) const;
  void evict_expired(std::int64_t now_ms);

  std::size_t max_bytes_;
  std::map<std::string, Gpu> gpus_;
  std::int64_t last_eviction_ms_ = INT64_MIN;
};

}  // namespace gpuyard::history
