#include "store/state_store.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "store/state_layout.h"

namespace gpuyard::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }
  void run(int number) {
    ASSERT_TRUE(store_->run(
        [this, number](Database&) -> Result<void> {
          worked_.push_back(number);
          return outcome_;
        },
        [this, number](const Result<void>& done) { (done ? kept_ : failed_).push_back(number); }));
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  std::unique_ptr<StateStore> store_ = std::make_unique<StateStore>(worker_, path(), kStateLayout);
  Result<void> outcome_;
  std::vector<int> worked_;
  std::vector<int> kept_;
  std::vector<int> failed_;
};

TEST_F(StateStoreTest, WhatComesDuringACommitIsDoneTogetherInTheNext) {
  run(1);
  run(2);
  run(3);
  EXPECT_EQ(worker_.waiting(), 1U) << "one commit at a time";
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2, 3));
  EXPECT_THAT(kept_, ElementsAre(1, 2, 3));
}

TEST_F(StateStoreTest, AGroupThatFailsIsToldToAllOfIt) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  ASSERT_EQ(store_->notes().size(), 1U);
  EXPECT_THAT(store_->notes()[0], HasSubstr("disk full; trying again"));
  outcome_ = {};
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
  EXPECT_THAT(store_->notes(), IsEmpty());
  EXPECT_THAT(log_.lines().back(), HasSubstr("is kept again"));
}

TEST_F(StateStoreTest, TroubleThatGoesOnIsLoggedOnce) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  for (int i = 0; i < 5; ++i) {
    run(i);
    worker_.run_all();
  }
  EXPECT_EQ(log_.lines().size(), 1U);
}

TEST_F(StateStoreTest, WhatWaitsIsBounded) {
  worker_.full = true;
  for (std::size_t i = 0; i < StateStore::kMostWaiting; ++i) run(0);
  const auto works = [](Database&) -> Result<void> { return {}; };
  EXPECT_FALSE(store_->run(works, [](const Result<void>&) {}));
}

TEST_F(StateStoreTest, QuestionsLeaveRoomForWhatMustBeKept) {
  worker_.full = true;
  const auto ask = [this] {
    return store_->ask<int>([](Database&) -> Result<int> { return 1; }, [](const Result<int>&) {});
  };
  for (std::size_t i = 0; i < StateStore::kMostAsked; ++i) EXPECT_TRUE(ask());
  EXPECT_FALSE(ask());
  run(1);
  worker_.full = false;
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(1, 2));
  EXPECT_TRUE(ask()) << "those were answered";
}

TEST_F(StateStoreTest, ANetworkFileSystemIsRefusedAndSaidUntilItIsNone) {
  bool network = true;
  const auto place = [&](const std::string& directory) -> Result<void> {
    EXPECT_EQ(directory, directory_.path());
    return network ? Result<void>(Error{Errc::denied, "on a network file system (NFS)"})
                   : Result<void>();
  };
  store_ = std::make_unique<StateStore>(worker_, path(), kStateLayout, place);
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  EXPECT_THAT(worked_, IsEmpty());
  EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("on a network file system (NFS)")));
  EXPECT_FALSE(std::filesystem::exists(path()));
  network = false;
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
}

TEST_F(StateStoreTest, AtItsEndWhatWaitsIsStillDoneAndNobodyIsTold) {
  run(1);
  run(2);
  store_.reset();
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2));
  EXPECT_THAT(kept_, IsEmpty());
}

}  // namespace
}  // namespace gpuyard::store
