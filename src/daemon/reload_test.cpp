#include "daemon/reload.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"

namespace gpuyard::daemon {
namespace {

// A configuration that is read by hand.
class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest() { config_->server.socket = "/run/gpuyard.sock"; }

  ManualWorker worker_;
  int reads_ = 0;
  Result<config::Config> config_{config::Config()};
  std::vector<Result<Reload::Fresh>> heard_;
  Reload reload_{worker_,
                 [this] {
                   ++reads_;
                   return config_;
                 },
                 config::Config::Control(),
                 [this](Result<Reload::Fresh> fresh) { heard_.push_back(std::move(fresh)); }};
};

TEST_F(ReloadTest, ReadsOnItsWorkerAndTellsOnTheLoop) {
  reload_.begin();
  EXPECT_EQ(reads_, 0);
  worker_.run_all();
  EXPECT_EQ(reads_, 1);
  ASSERT_EQ(heard_.size(), 1U);
  ASSERT_TRUE(heard_[0]) << heard_[0].error().message;
  EXPECT_FALSE(heard_[0]->alerts.rules.empty());
}

TEST_F(ReloadTest, AskedTwiceWhileItReadsItReadsOnceMore) {
  for (int i = 0; i < 3; ++i) reload_.begin();
  worker_.run_all();
  worker_.run_all();
  EXPECT_EQ(reads_, 2);
  EXPECT_EQ(heard_.size(), 2U);
}

TEST_F(ReloadTest, WhatTheNextStartWouldRefuseIsRefused) {
  config_->metrics.prefix = "0 is no name";
  reload_.begin();
  worker_.run_all();
  ASSERT_EQ(heard_.size(), 1U);
  ASSERT_FALSE(heard_[0]);
  EXPECT_NE(heard_[0].error().message.find("metrics.prefix"), std::string::npos);
}

TEST_F(ReloadTest, AWorkerWithoutAPlaceIsSaid) {
  worker_.full = true;
  reload_.begin();
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_FALSE(heard_[0]);
  worker_.full = false;
  reload_.begin();
  worker_.run_all();
  EXPECT_EQ(reads_, 1);
}

}  // namespace
}  // namespace gpuyard::daemon
