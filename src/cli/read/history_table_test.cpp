#include "cli/read/history_table.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

protocol::History percents(std::vector<double> values) {
  protocol::History history;
  history.index = 0;
  history.name = "NVIDIA H100";
  history.metric = "utilization_gpu_percent";
  history.unit = "%";
  history.step_ms = 1000;
  for (const double value : values) {
    const auto t_ms = 1'000'000 + static_cast<std::int64_t>(history.points.size()) * 1000;
    history.points.push_back({t_ms, value, value, value});
  }
  if (!values.empty()) {
    history.summary = {values.size(), values.front(), values.front(), values.front(),
                       values.back()};
  }
  return history;
}

TEST(HistoryColumns, ArePartsOfTheTimeAndBlankWhereNothingWas) {
  auto history = percents({10, 20, 30, 40});
  history.points[2] = {history.points[2].t_ms, {}, {}, {}};
  const auto columns = columns_of(history, 1'000'000, 1'004'000, 4);
  EXPECT_EQ(columns[0], 10);
  EXPECT_EQ(columns[1], 20);
  EXPECT_TRUE(std::isnan(columns[2]));
  EXPECT_EQ(columns[3], 40);
  EXPECT_EQ(columns_of(history, 1'000'000, 1'004'000, 2)[0], 15);
}

TEST(HistoryTable, HasALineForEachGpuWithItsShape) {
  const Screen screen{.utf8 = true};
  const std::string text = history_table({percents({45, 67, 82, 91, 88, 75, 60})}, screen, false);
  EXPECT_EQ(text.find("GPU  NAME  utilization_gpu_percent"), 0U) << text;
  EXPECT_NE(text.find("▃▃▃▃▃▄▅▅▅▅▅▅▆"), std::string::npos) << text;
  EXPECT_NE(text.find("45 %"), std::string::npos) << text;
  EXPECT_NE(text.find("60 %"), std::string::npos) << text;
}

TEST(HistoryTable, IsAsciiWhereNothingElseIs) {
  const std::string text = history_table({percents({0, 100})}, Screen{}, true);
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80U);
  EXPECT_NE(text.find("____"), std::string::npos) << text;
  EXPECT_NE(text.find("####"), std::string::npos) << text;
}

TEST(HistoryTable, NothingKnownIsADash) {
  const std::string text = history_table({percents({})}, Screen{}, true);
  EXPECT_NE(text.find(" -  "), std::string::npos) << text;
}

TEST(HistoryTable, ACounterHasTheShapeOfItsGrowth) {
  auto energy = percents({0, 10, 20, 30, 40, 50, 50, 50, 50, 50});
  energy.unit = "J";
  energy.counter = true;
  const std::string text = history_table({energy}, Screen{.utf8 = true}, false);
  EXPECT_NE(text.find("    ████████████████████▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁"), std::string::npos) << text;
}

TEST(AmountText, HasAboutFourDigits) {
  EXPECT_EQ(amount_text(604.551, "W"), "604.6 W");
  EXPECT_EQ(amount_text(70, "W"), "70 W");
  EXPECT_EQ(amount_text(45.25, "%"), "45.25 %");
  EXPECT_EQ(amount_text(123456.7, "J"), "123457 J");
  EXPECT_EQ(amount_text(3, ""), "3");
  EXPECT_EQ(amount_text(77'031'643'545, "B"), "71.7 GiB");
}

}  // namespace
}  // namespace gpuyard::cli
