#include "base/published.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Published, InitialValueIsNull) {
  const Published<int> cell;
  EXPECT_EQ(cell.load(), nullptr);
}

TEST(Published, GivesTheNewestValue) {
  Published<int> cell;
  cell.store(std::make_shared<const int>(1));
  cell.store(std::make_shared<const int>(2));
  EXPECT_EQ(*cell.load(), 2);
}

TEST(Published, LoadedValueOutlivesReplacement) {
  Published<int> cell;
  cell.store(std::make_shared<const int>(1));
  const auto held = cell.load();
  cell.store(nullptr);
  EXPECT_EQ(*held, 1);
}

TEST(Published, OldValueIsReleased) {
  Published<int> cell;
  auto value = std::make_shared<const int>(1);
  const std::weak_ptr<const int> watched = value;
  cell.store(std::move(value));
  cell.store(std::make_shared<const int>(2));
  EXPECT_TRUE(watched.expired());
}

// A value is torn if its halves differ.
struct Pair {
  int first = 0;
  int second = 0;
};

TEST(Published, ConcurrentReadersSeeCompleteIncreasingValues) {
  constexpr int kLast = 2000;
  Published<Pair> cell;
  cell.store(std::make_shared<const Pair>());
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (int newest = 0; newest < kLast;) {
        const auto seen = cell.load();
        if (seen->first != seen->second || seen->first < newest) ++wrong;
        newest = seen->first;
      }
    });
  }
  for (int i = 1; i <= kLast; ++i) cell.store(std::make_shared<const Pair>(Pair{i, i}));
  readers.clear();  // joins
  EXPECT_EQ(wrong, 0);
}

}  // namespace

}  // namespace gpuyard
