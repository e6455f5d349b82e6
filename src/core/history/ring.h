// The newest points of one series: closed blocks, and a short open end. Blocks never change once
// they are made, so that another thread may decode what this one goes on with.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "history/block.h"

namespace gpuyard::history {

struct Block {
  std::shared_ptr<const char[]> bytes;
  std::size_t size = 0;
  std::size_t points = 0;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;

  std::string_view text() const { return {bytes.get(), size}; }
};

// A part of a ring, to be read anywhere.
template <class P>
struct View {
  std::vector<Block> blocks;
  std::vector<P> tail;

  // Those of [from_ms, until_ms).
  std::vector<P> points(std::int64_t from_ms, std::int64_t until_ms) const {
    std::vector<P> out;
    const auto add = [&](const std::vector<P>& some) {
      std::ranges::copy_if(some, std::back_inserter(out), [&](const P& point) {
        return point.at_ms >= from_ms && point.at_ms < until_ms;
      });
    };
    for (const Block& block : blocks) {
      if (const auto some = decode<P>(block.text())) add(*some);  // our own bytes: never nothing
    }
    add(tail);
    return out;
  }
};

template <class P>
class Ring {
 public:
  // Later than all before it.
  void push(const P& point) {
    tail_.push_back(point);
    if (tail_.size() == kTailPoints) close_tail();
  }

  // Whole blocks only, so that a little more is kept than asked for.
  void drop_before(std::int64_t at_ms) {
    while (!blocks_.empty() && blocks_.front().last_ms < at_ms) drop_oldest();
    if (blocks_.empty() && !tail_.empty() && tail_.back().at_ms < at_ms) {
      complete_since_ms_ = tail_.back().at_ms + 1;
      tail_.clear();
    }
  }
  // False: there is no closed block.
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
  // Nothing that was pushed at this time or later has gone.
  std::int64_t complete_since_ms() const { return complete_since_ms_; }
  // What it takes of the heap, near enough to hold a limit.
  std::size_t bytes() const { return block_bytes_ + tail_.capacity() * sizeof(P); }
  std::size_t block_count() const { return blocks_.size(); }

  View<P> view(std::int64_t from_ms) const {
    View<P> view{{}, tail_};
    std::ranges::copy_if(blocks_, std::back_inserter(view.blocks),
                         [&](const Block& block) { return block.last_ms >= from_ms; });
    return view;
  }

 private:
  // A longer end would cost memory for each series, a shorter one the packing of a block again and
  // again.
  static constexpr std::size_t kTailPoints = 30;
  static_assert(kBlockPoints % kTailPoints == 0);

  static std::size_t cost_of(const Block& block) {
    constexpr std::size_t kOfAnAllocation = 32;
    return sizeof(Block) + kOfAnAllocation + block.size;
  }

  void close_tail() {
    std::vector<P> points;
    if (!blocks_.empty() && blocks_.back().points + tail_.size() <= kBlockPoints) {
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

}  // namespace gpuyard::history
