#include "cli/top/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/top/top_fixture_for_tests.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::string chosen(const Model& model) {
  return list_of(model).selected;
}

TEST(Model, PointsAtAGpuThatIsThere) {
  Model none;
  press_keys(none, "j");
  EXPECT_EQ(device_of(none), nullptr);
  Model model = make_model(3);
  press_keys(model, "G");
  EXPECT_EQ(device_of(model)->index, 2U);
  press_keys(model, "j");
  EXPECT_EQ(device_of(model)->index, 2U);
  press_keys(model, "g");
  EXPECT_EQ(device_of(model)->index, 0U);
}

TEST(Model, KNeverKills) {
  Model model = make_model(3);
  press_keys(model, "Gk");
  EXPECT_EQ(device_of(model)->index, 1U);
  model.pane = Pane::processes;
  press_keys(model, "k");
  EXPECT_FALSE(model.dialog);
}

TEST(Model, EscapeGoesBackAndNeverQuits) {
  Model model = make_model(2);
  model.pane = Pane::gpu;
  EXPECT_EQ(press_keys(model, "\x1b").what, SessionAction::Kind::none);
  EXPECT_EQ(model.pane, Pane::overview);
  EXPECT_EQ(press_keys(model, "\x1b").what, SessionAction::Kind::none);
  EXPECT_EQ(press_keys(model, "q").what, SessionAction::Kind::leave);
}

TEST(Model, ClocksAreQueriedForFilterOrOrder) {
  Model model = make_model(2);
  press_keys(model, "/");
  EXPECT_FALSE(model.query.clocks);  // a daemon has them
  press_keys(model, "\x1b");
  model.daemon.clear();
  press_keys(model, "j");
  EXPECT_FALSE(model.query.clocks);
  press_keys(model, "/");
  EXPECT_TRUE(model.query.clocks);
  press_keys(model, "\x1b");
  EXPECT_FALSE(model.query.clocks);
  press_keys(model, "/1980\r");
  EXPECT_TRUE(model.query.clocks);
  for (const Pane pane : {Pane::overview, Pane::processes}) {
    Model sorted = make_model(2);
    sorted.daemon.clear();
    sorted.pane = pane;
    press_keys(sorted, ">");
    EXPECT_TRUE(sorted.query.clocks);
  }
}

TEST(Model, EachPaneIsReachedByTab) {
  Model model = make_model(2);
  for (const Pane pane :
       {Pane::processes, Pane::queue, Pane::alerts, Pane::usage, Pane::overview}) {
    press_keys(model, "\t");
    EXPECT_EQ(model.pane, pane);
  }
  press_keys(model, "\r");
  EXPECT_EQ(model.pane, Pane::gpu);
}

TEST(Model, TheChosenRowStaysChosenWhereverItGoes) {
  Model model = make_model(8);
  model.pane = Pane::processes;
  press_keys(model, "jj");
  const std::string before = chosen(model);
  for (protocol::Device& device : model.data.snapshot.devices) {
    if (!device.processes) continue;
    for (protocol::Process& process : *device.processes) {
      process.sm_percent = 100 - process.sm_percent.value_or(0);
    }
  }
  model.now += 1min;
  sort_lists(model);
  EXPECT_EQ(chosen(model), before);
  EXPECT_NE(list_of(model).position, 2U) << "it has moved";
}

TEST(Model, MoveFreezesOrderForThreeSeconds) {
  Model model = make_model(8);
  model.pane = Pane::processes;
  press_keys(model, "j");
  const auto before = list_of(model).names;
  model.data.snapshot.devices[2].processes->at(0).sm_percent = 1;
  model.now += 2s;
  sort_lists(model);
  EXPECT_EQ(list_of(model).names, before);
  model.now += 2s;
  sort_lists(model);
  EXPECT_NE(list_of(model).names, before);
}

TEST(Model, AFilterLeavesTheRowsThatPass) {
  Model model = make_model(8);
  press_keys(model, "/user==alice\r");
  EXPECT_THAT(list_of(model).names, ElementsAre("GPU-00000000", "GPU-00000001"));
  press_keys(model, "/\x15temp>\r");
  ASSERT_TRUE(model.prompt);
  EXPECT_THAT(model.prompt->error, HasSubstr("column 6"));
  press_keys(model, "\x1b");
  EXPECT_EQ(list_of(model).names.size(), 8U);
  press_keys(model, "f");
  EXPECT_EQ(list_of(model).names.size(), 2U) << "only mine";
}

TEST(Model, RowsAreOrderedByAnyField) {
  Model model = make_model(8);
  while (kFields.at(model.gpu_order.field) != "power") press_keys(model, ">");
  EXPECT_EQ(list_of(model).names.back(), "GPU-00000003") << "what is not known comes last";
  EXPECT_EQ(list_of(model).names.front(), "GPU-00000006");
  press_keys(model, "i");
  EXPECT_EQ(list_of(model).names.back(), "GPU-00000003");
  EXPECT_EQ(list_of(model).names.front(), "GPU-00000000");
}

TEST(Model, TravelsInTimeAndBack) {
  Model model = make_model(8);
  model.data.marks = {{kNow - 50min, '*', "", "one"}, {kNow - 20min, '*', "", "two"}};
  press_keys(model, "[[");
  EXPECT_EQ(model.query.at, kNow - 2min);
  press_keys(model, "{");
  EXPECT_EQ(model.query.at, kNow - 20min);
  press_keys(model, "{");
  EXPECT_EQ(model.query.at, kNow - 50min);
  press_keys(model, "}");
  EXPECT_EQ(model.query.at, kNow - 20min);
  press_keys(model, "@3h\r");
  EXPECT_EQ(model.query.at, kNow - 3h);
  press_keys(model, "p");
  EXPECT_FALSE(model.dialog);
  EXPECT_THAT(model.message, HasSubstr("the past cannot be changed"));
  press_keys(model, "L");
  EXPECT_FALSE(model.query.at);
  model.has_history = false;
  press_keys(model, "[");
  EXPECT_FALSE(model.query.at);
}

TEST(Model, ATimeIsTypedInManyWays) {
  EXPECT_EQ(*parse_time("90s", kNow), kNow - 90s);
  EXPECT_EQ(*parse_time("-2d", kNow), kNow - 48h);
  EXPECT_EQ(*parse_time("2026-01-30T01:00:00Z", kNow), *from_rfc3339("2026-01-30T01:00:00Z"));
  const auto clock = parse_time("12:00", kNow);
  ASSERT_TRUE(clock.ok());
  EXPECT_LE(*clock, kNow);
  EXPECT_GT(*clock, kNow - 24h);
  for (const char* wrong : {"", "25:00", "12:61", "soon", "12:0x"}) {
    EXPECT_FALSE(parse_time(wrong, kNow).ok()) << wrong;
  }
}

TEST(Model, AClickChoosesTheRowBelowIt) {
  Model model = make_model(8);
  const Grid shown = render(model, {80, 24}, Charset::block);
  handle_key(model, {Stroke::Kind::click, "", 40, 5}, shown);
  EXPECT_EQ(device_of(model)->index, 3U);
  handle_key(model, {Stroke::Kind::click, "", 40, 20}, shown);
  EXPECT_EQ(device_of(model)->index, 3U) << "nothing that could be chosen is there";
}

TEST(Model, CopyKeyYieldsIdOfSelectedRow) {
  Model model = make_model(8);
  EXPECT_EQ(press_keys(model, "y").text, "GPU-00000000");
  model.pane = Pane::processes;
  const SessionAction pid = press_keys(model, "y");
  EXPECT_EQ(pid.what, SessionAction::Kind::copy);
  EXPECT_EQ(pid.text, "41229") << "the busiest";
  model.pane = Pane::alerts;
  EXPECT_EQ(press_keys(model, "y").text, "17");
  EXPECT_THAT(press_keys(model, "Y").text, HasSubstr("gpu-lost"));
}

// The line of the last seconds is of the moment that is shown.
TEST(Model, PastHistoryIsNotContinuedLive) {
  Model model = make_model(1);
  ScreenData past = model.data;
  past.at = kNow - 1h;
  past.past_utilization["GPU-00000000"] = {0.25, 0.5};
  update(model, past);
  EXPECT_THAT(model.utilization["GPU-00000000"], ElementsAre(0.25, 0.5));
  past.past_utilization.clear();
  update(model, past);
  EXPECT_TRUE(model.utilization.empty()) << "nothing is kept of it";
  ScreenData live = model.data;
  live.at.reset();
  live.past_utilization["GPU-00000000"] = {0.75};
  update(model, live);
  EXPECT_THAT(model.utilization["GPU-00000000"], ElementsAre(0.75, 0.96));
  live.past_utilization.clear();
  update(model, live);
  EXPECT_THAT(model.utilization["GPU-00000000"], ElementsAre(0.75, 0.96, 0.96));
}

TEST(UtilizationHistory, TwoMinutesOfPresentGpusAreKept) {
  UtilizationHistory recent;
  protocol::Snapshot snapshot;
  snapshot.devices.resize(2);
  snapshot.devices[0].uuid = "GPU-0";
  snapshot.devices[1].uuid = "GPU-1";
  snapshot.devices[0].readings.set({Metric::utilization_gpu, 0, {}, std::int64_t{50}});
  for (int i = 0; i < 200; ++i) append_utilization(recent, snapshot);
  EXPECT_EQ(recent.at("GPU-0").size(), kUtilizationSamples);
  EXPECT_EQ(recent.at("GPU-0").back(), 0.5);
  EXPECT_EQ(recent.at("GPU-1").back(), kNoValue);
  snapshot.devices.resize(1);
  append_utilization(recent, snapshot);
  EXPECT_EQ(recent.size(), 1U);
}

}  // namespace
}  // namespace gpuyard::cli::top
