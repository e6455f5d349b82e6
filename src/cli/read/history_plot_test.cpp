#include "cli/read/history_plot.h"

#include <gtest/gtest.h>

#include "base/local_time.h"
#include "cli/screen/fitted_table.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

protocol::History ramp(int points) {
  protocol::History history;
  history.index = 3;
  history.name = "NVIDIA H100";
  history.metric = "utilization_gpu_percent";
  history.unit = "%";
  history.bound = 100;
  history.step_ms = 1000;
  for (int i = 0; i < points; ++i) {
    const double value = 100.0 * i / (points - 1);
    history.points.push_back({std::int64_t{1000} * i, value, value, value});
  }
  return history;
}

std::vector<std::string> drawn(const protocol::History& history, PlotCharset charset,
                               const PlotSize& size, const Screen& screen = {}) {
  auto lines = split(history_plot(history, span_of({history}), size, charset, screen), '\n');
  lines.pop_back();
  return lines;
}

TEST(HistoryPlot, IsAsLargeAsAskedWithAnyCharset) {
  for (const auto charset : {PlotCharset::braille, PlotCharset::block, PlotCharset::ascii}) {
    const auto lines = drawn(ramp(100), charset, {60, 8});
    ASSERT_EQ(lines.size(), 8U + 3U);
    for (const std::string& line : lines) EXPECT_LE(width_of(line), 60U) << line;
    EXPECT_EQ(width_of(lines[9]), 60U - 8U) << "the axis, without blanks before it: " << lines[9];
  }
}

TEST(HistoryPlot, AxisEndsWithTheZone) {
  const auto lines = drawn(ramp(100), PlotCharset::ascii, {60, 4});
  EXPECT_TRUE(lines.back().ends_with(" " + zone_name(WallTime(std::chrono::milliseconds(100'000)))))
      << lines.back();
}

TEST(HistoryPlot, RampRisesFromBottomLeftToTopRight) {
  const auto lines = drawn(ramp(100), PlotCharset::ascii, {26, 4});
  EXPECT_EQ(lines[0], "GPU 3 NVIDIA H100  utilization_gpu_percent");
  EXPECT_EQ(lines[1].find("100 % +"), 0U) << lines[1];
  EXPECT_EQ(lines[1].back(), '#');
  EXPECT_EQ(lines[4].find("0 % +#"), 0U) << lines[4];
}

TEST(HistoryPlot, MissingPointLeavesGap) {
  auto history = ramp(4);
  for (auto& point : history.points) point.min = point.mean = point.max = 50;
  history.points[1] = {1000, {}, {}, {}};
  const auto lines = drawn(history, PlotCharset::ascii, {7 + 40, 3});
  EXPECT_NE(lines[2].find("##########          ####################"), std::string::npos)
      << lines[2];
}

TEST(HistoryPlot, StepSpansLeastToGreatest) {
  protocol::History history = ramp(2);
  history.points = {{0, 0, 50, 100}};
  const auto lines = drawn(history, PlotCharset::ascii, {7 + 10, 5});
  for (std::size_t row = 1; row <= 5; ++row) {
    EXPECT_NE(lines[row].find("##########"), std::string::npos) << lines[row];
  }
}

TEST(HistoryPlot, SteadyReadingUsesFullScaleUnlessZoomed) {
  protocol::History history = ramp(100);
  history.unit = "W";
  history.bound = 700;
  for (std::size_t i = 0; i < history.points.size(); ++i) {
    auto& point = history.points[i];
    point.min = point.mean = point.max = 654 + static_cast<double>(i % 15);
  }
  const auto whole = drawn(history, PlotCharset::ascii, {60, 8});
  EXPECT_EQ(whole[1].find("700 W"), 0U) << whole[1];
  EXPECT_NE(whole[8].find("0 W +"), std::string::npos) << whole[8];
  for (std::size_t row = 2; row <= 8; ++row) {
    EXPECT_EQ(whole[row].find('#'), std::string::npos) << whole[row];
  }
  const std::string zoomed = history_plot(history, span_of({history}), {60, 8}, PlotCharset::ascii,
                                          Screen{}, PlotRange::zoomed);
  EXPECT_EQ(split(zoomed, '\n').at(1).find("668 W"), 0U) << zoomed;
}

TEST(HistoryPlot, ValueAboveBoundExtendsScale) {
  protocol::History history = ramp(2);
  history.bound = 50;
  EXPECT_EQ(drawn(history, PlotCharset::ascii, {60, 8})[1].find("100 %"), 0U);
}

TEST(HistoryPlot, HasColourOnlyOnAScreenThatHas) {
  Screen colours;
  colours.color = true;
  const auto history = ramp(10);
  const auto plot = [&](const Screen& screen) {
    return history_plot(history, span_of({history}), {}, PlotCharset::braille, screen);
  };
  EXPECT_NE(plot(colours).str().find("\x1b["), std::string::npos);
  EXPECT_EQ(plot(Screen{}).str().find("\x1b["), std::string::npos);
}

TEST(HistoryPlot, AFlatLineOrASinglePointIsDrawnToo) {
  auto history = ramp(2);
  history.unit = "W";
  history.points = {{5000, 70, 70, 70}};
  EXPECT_EQ(drawn(history, PlotCharset::braille, {40, 6}).size(), 9U);
}

}  // namespace
}  // namespace gpuyard::cli
