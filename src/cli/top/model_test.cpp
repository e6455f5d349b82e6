#include "cli/top/model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpuyard::cli::top {
namespace {

std::vector<Key> keys_of(std::string bytes) {
  std::vector<Key> keys;
  while (!bytes.empty()) {
    const std::size_t before = bytes.size();
    const Key key = take_key(bytes, true);
    if (key != Key::none) keys.push_back(key);
    if (bytes.size() == before) break;
  }
  return keys;
}

TEST(Keys, AreLettersAndTheSequencesOfTerminals) {
  EXPECT_EQ(keys_of("jk\x1b[A\x1bOB\x1b[6~q"),
            (std::vector{Key::down, Key::up, Key::up, Key::down, Key::page_down, Key::quit}));
  EXPECT_EQ(keys_of("1234\t?"), (std::vector{Key::overview, Key::processes, Key::queue, Key::alerts,
                                             Key::next_pane, Key::help}));
}

TEST(Keys, KNeverKills) {
  Model model;
  model.news.snapshot.devices.resize(3);
  model.gpu = 2;
  ASSERT_TRUE(press(model, keys_of("k").at(0), {}));
  EXPECT_EQ(model.gpu, 1U);
}

TEST(Keys, EscapeAloneGoesBackAndNeverQuits) {
  EXPECT_EQ(keys_of("\x1b"), std::vector{Key::back});
  EXPECT_EQ(keys_of("\x1b"
                    "4"),
            (std::vector{Key::back, Key::alerts}));
  Model model;
  model.pane = Pane::gpu;
  EXPECT_TRUE(press(model, Key::back, {}));
  EXPECT_EQ(model.pane, Pane::overview);
  EXPECT_TRUE(press(model, Key::back, {}));
}

TEST(Keys, ASequenceThatHasNotAllComeWaits) {
  std::string bytes = "\x1b[";
  EXPECT_EQ(take_key(bytes, false), Key::none);
  EXPECT_EQ(bytes, "\x1b[");
  bytes += "A";
  EXPECT_EQ(take_key(bytes, false), Key::up);
  EXPECT_TRUE(bytes.empty());
}

TEST(Keys, SequencesThatMeanNothingAreTakenWhole) {
  EXPECT_EQ(keys_of("\x1b[1;5Cj\x1b[200~j"), (std::vector{Key::down, Key::down}));
}

TEST(Keys, NoBytesCanMakeItStandStill) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      std::string bytes{'\x1b', static_cast<char>(first), static_cast<char>(second)};
      for (int i = 0; i < 8 && !bytes.empty(); ++i) take_key(bytes, true);
      ASSERT_TRUE(bytes.empty()) << first << " " << second;
    }
  }
}

TEST(Model, PointsAtAGpuThatIsThere) {
  Model model;
  press(model, Key::down, {});
  EXPECT_EQ(model.gpu, 0U) << "there is none";
  model.news.snapshot.devices.resize(2);
  press(model, Key::bottom, {});
  EXPECT_EQ(model.gpu, 1U);
  press(model, Key::down, {});
  EXPECT_EQ(model.gpu, 1U);
  press(model, Key::top, {});
  EXPECT_EQ(model.gpu, 0U);
}

TEST(Model, ScrollsNoFurtherThanItsList) {
  Model model;
  model.pane = Pane::processes;
  press(model, Key::bottom, {});
  EXPECT_EQ(model.scrolled, 0U) << "there is nothing";
  model.news.snapshot.devices.resize(1);
  model.news.snapshot.devices[0].processes.emplace(5);
  press(model, Key::bottom, {});
  EXPECT_EQ(model.scrolled, 4U);
  press(model, Key::up, {});
  EXPECT_EQ(model.scrolled, 3U);
}

TEST(Model, EachPaneIsReachedByTab) {
  Model model;
  for (const Pane pane : {Pane::processes, Pane::queue, Pane::alerts, Pane::overview}) {
    press(model, Key::next_pane, {});
    EXPECT_EQ(model.pane, pane);
  }
  press(model, Key::enter, {});
  EXPECT_EQ(model.pane, Pane::gpu);
  EXPECT_FALSE(press(model, Key::quit, {}));
}

TEST(Recent, KeepsTwoMinutesOfTheGpusThatAreThere) {
  Recent recent;
  protocol::Snapshot snapshot;
  snapshot.devices.resize(2);
  snapshot.devices[0].uuid = "GPU-0";
  snapshot.devices[1].uuid = "GPU-1";
  snapshot.devices[0].readings.sample.set({Metric::utilization_gpu, 0, {}, std::int64_t{50}});
  for (int i = 0; i < 200; ++i) note(recent, snapshot);
  EXPECT_EQ(recent.at("GPU-0").size(), kRecent);
  EXPECT_EQ(recent.at("GPU-0").back(), 0.5);
  EXPECT_EQ(recent.at("GPU-1").back(), kNoValue);
  snapshot.devices.resize(1);
  note(recent, snapshot);
  EXPECT_EQ(recent.size(), 1U);
}

}  // namespace
}  // namespace gpuyard::cli::top
