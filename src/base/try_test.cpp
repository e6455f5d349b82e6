#include "base/try.h"

#include <memory>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

// Counts those that exist.
struct Counted {
  explicit Counted(int* count) : living(count) { ++*count; }
  Counted(Counted&& other) noexcept : living(other.living) { ++*living; }
  ~Counted() { --*living; }

  int* living;
};

Result<Counted> make_counted(bool works, int* living) {
  if (!works) return Error{Errc::busy, "no place"};
  return Counted(living);
}

Result<std::unique_ptr<int>> make_pointer(bool works) {
  if (!works) return Error{Errc::unavailable, "no pointer"};
  return std::make_unique<int>(7);
}

Result<void> check(bool works) {
  if (!works) return Error{Errc::invalid, "not valid"};
  return {};
}

// Fails at the step of that number, or not at all.
Result<int> run(int failing, int* living) {
  const auto first = GPUYARD_TRY(make_counted(failing != 1, living));
  GPUYARD_TRY(check(failing != 2));
  auto pointer = GPUYARD_TRY(make_pointer(failing != 3));
  const auto second = GPUYARD_TRY(make_counted(failing != 4, living));
  return *pointer + *second.living;
}

TEST(Try, ValueInitializesVariable) {
  int living = 0;
  const auto done = run(0, &living);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(*done, 7 + 2);
}

TEST(Try, FirstErrorIsReturned) {
  int living = 0;
  EXPECT_EQ(run(1, &living).error(), (Error{Errc::busy, "no place"}));
  EXPECT_EQ(run(2, &living).error(), (Error{Errc::invalid, "not valid"}));
  EXPECT_EQ(run(3, &living).error(), (Error{Errc::unavailable, "no pointer"}));
}

TEST(Try, EveryObjectIsDestroyedOnce) {
  int living = 0;
  for (int failing = 0; failing <= 4; ++failing) {
    static_cast<void>(run(failing, &living).ok());
    EXPECT_EQ(living, 0) << "failing at step " << failing;
  }
}

}  // namespace
}  // namespace gpuyard
