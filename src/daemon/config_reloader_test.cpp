#include "daemon/config_reloader.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "core/andon/alert.h"
#include "io/notify/notification.h"

namespace gpuyard::daemon {
namespace {

// A configuration that the test reads by hand.
class ConfigReloaderTest : public ::testing::Test {
 protected:
  ConfigReloaderTest() { config_->server.socket = "/run/gpuyard.sock"; }

  ManualWorker worker_;
  int reads_ = 0;
  Result<config::Config> config_{config::Config()};
  std::vector<Result<ConfigReloader::LoadedConfig>> loaded_;
  ConfigReloader reload_{
      worker_,
      [this] {
        ++reads_;
        return config_;
      },
      config::Config::Control(),
      [this](Result<ConfigReloader::LoadedConfig> fresh) { loaded_.push_back(std::move(fresh)); }};
};

TEST_F(ConfigReloaderTest, ReadsOnWorkerAndNotifiesOnLoop) {
  reload_.begin();
  EXPECT_EQ(reads_, 0);
  worker_.run_all();
  EXPECT_EQ(reads_, 1);
  ASSERT_EQ(loaded_.size(), 1U);
  ASSERT_TRUE(loaded_[0]) << loaded_[0].error().message;
  EXPECT_FALSE(loaded_[0]->alerts.rules.empty());
}

TEST_F(ConfigReloaderTest, RequestsDuringReadCauseOneReread) {
  for (int i = 0; i < 3; ++i) reload_.begin();
  worker_.run_all();
  worker_.run_all();
  EXPECT_EQ(reads_, 2);
  EXPECT_EQ(loaded_.size(), 2U);
}

TEST_F(ConfigReloaderTest, ValueInvalidAtStartIsRefusedOnReload) {
  config_->metrics.prefix = "0 is no name";
  reload_.begin();
  worker_.run_all();
  ASSERT_EQ(loaded_.size(), 1U);
  ASSERT_FALSE(loaded_[0]);
  EXPECT_NE(loaded_[0].error().message.find("metrics.prefix"), std::string::npos);
}

TEST_F(ConfigReloaderTest, AWorkerWithoutAPlaceIsSaid) {
  worker_.full = true;
  reload_.begin();
  ASSERT_EQ(loaded_.size(), 1U);
  EXPECT_FALSE(loaded_[0]);
  worker_.full = false;
  reload_.begin();
  worker_.run_all();
  EXPECT_EQ(reads_, 1);
}

}  // namespace
}  // namespace gpuyard::daemon
