#include "cli/read/history_table.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/local_time.h"

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

TEST(HistoryColumns, TimeSlicesAreAveragedAndGapsBlank) {
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

TEST(HistoryTable, ScreenWithoutUnicodeGetsAscii) {
  const std::string text = history_table({percents({0, 100})}, Screen{}, true);
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80U);
  EXPECT_NE(text.find("____"), std::string::npos) << text;
  EXPECT_NE(text.find("####"), std::string::npos) << text;
}

TEST(HistoryTable, EmptyHistoryIsDash) {
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

protocol::BottleneckSpan spell(BottleneckCause cause, const char* brief, const char* began,
                               const char* ended, bool on = false) {
  protocol::BottleneckSpan spell{{}, began, ended, on};
  spell.bottleneck.cause = cause;
  spell.bottleneck.brief = brief;
  spell.bottleneck.text = "is as it is";
  return spell;
}

protocol::Bottlenecks a_night() {
  using enum BottleneckCause;
  protocol::Bottlenecks bottlenecks;
  bottlenecks.seconds = 3600;
  protocol::GpuBottlenecks hot{0, "GPU-1", 1800, {}, {}};
  hot.shares = {{none, 1098, 61}, {power_cap, 702, 39}};
  hot.spells = {
      spell(power_cap, "power cap 38%", "2026-01-31T02:20:00.000Z", "2026-01-31T02:25:00.000Z",
            true),
      spell(none, "none", "2026-01-31T02:10:00.000Z", "2026-01-31T02:20:00.000Z"),
      spell(heat, "heat 61%", "2026-01-31T02:03:18.000Z", "2026-01-31T02:10:00.000Z"),
      spell(not_known, "unknown", "2026-01-31T02:03:00.000Z", "2026-01-31T02:03:18.000Z")};
  bottlenecks.gpus = {hot, {{}, "GPU-2", 0, {}, {}}};
  return bottlenecks;
}

TEST(BottleneckTables, SharesAndSpansAreListed) {
  const auto now = from_rfc3339("2026-01-31T02:25:00.000Z").value();
  const std::string text = bottleneck_tables(a_night(), {}, now);
  const auto at = [&](const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << what << " in\n" << text;
    return text.find(what);
  };
  at("GPU    COVERAGE  BOTTLENECKS BY SHARE OF COVERED TIME");
  at("0          50 %  none 61%, power cap 39%");
  at(fmt::format("GPU  FROM ({0})  UNTIL ({0})", zone_name(now)).c_str());
  at("GPU-2       0 %  -");
  EXPECT_LT(at("6m  heat 61%"), at("5m  power cap 38%")) << "the newest last";
  at("now");
  EXPECT_EQ(text.find("unknown"), std::string::npos) << "a daemon that has just begun\n" << text;
}

TEST(BottleneckTables, IncompleteAndEmptyResultsHaveNotes) {
  protocol::Bottlenecks bottlenecks = a_night();
  bottlenecks.complete = false;
  EXPECT_NE(bottleneck_tables(bottlenecks, {}, {}).str().find("Only the newest"),
            std::string::npos);
  for (protocol::GpuBottlenecks& gpu : bottlenecks.gpus) gpu.spells.clear();
  EXPECT_NE(bottleneck_tables(bottlenecks, {}, {}).str().find("No bottlenecks in the time covered"),
            std::string::npos);
  for (protocol::GpuBottlenecks& gpu : bottlenecks.gpus) gpu.known_seconds = 0;
  EXPECT_NE(bottleneck_tables(bottlenecks, {}, {}).str().find("No data for this period"),
            std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
