#include "core/andon/plugin_report.h"

#include <gtest/gtest.h>

#include "core/andon/alert_service_for_tests.h"

namespace gpuyard::andon {
namespace {

TEST(PluginReport, LatestReportCounts) {
  PluginReport report;
  EXPECT_EQ(report.hides("GPU-0", kStart), std::nullopt) << "no report yet";
  report.update({"GPU-0", "GPU-1"}, kStart);
  EXPECT_EQ(report.hides("GPU-0", kStart), true);
  EXPECT_EQ(report.hides("GPU-2", kStart), false);
  report.update({"GPU-1"}, kStart + std::chrono::minutes(1));
  EXPECT_EQ(report.hides("GPU-0", kStart + std::chrono::minutes(1)), false);
}

TEST(PluginReport, ReportCountsForThreeMinutes) {
  PluginReport report;
  report.update({"GPU-0"}, kStart);
  EXPECT_EQ(report.hides("GPU-0", kStart + std::chrono::minutes(3) - std::chrono::seconds(1)),
            true);
  EXPECT_EQ(report.hides("GPU-0", kStart + std::chrono::minutes(3)), std::nullopt);
  EXPECT_EQ(report.hides("GPU-1", kStart + std::chrono::minutes(3)), std::nullopt);
  report.update({}, kStart + std::chrono::minutes(4));
  EXPECT_EQ(report.hides("GPU-0", kStart + std::chrono::minutes(4)), false) << "known again";
}

}  // namespace
}  // namespace gpuyard::andon
