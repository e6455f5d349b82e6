#include "faces/recording/player.h"

#include <random>

#include <gtest/gtest.h>

#include "faces/recording/recording_for_tests.h"
#include "faces/recording/recording_line.h"
#include "gpu/device/catalog.h"

namespace gpuyard::recording {
namespace {

using std::chrono::seconds;

// Records ten seconds of one GPU, whose power grows by 100 W each second.
std::string ten_seconds() {
  RecordingEncoder recorder;
  std::string text;
  for (int second = 0; second < 10; ++second) {
    auto gpu = device(0, "GPU-a");
    set(gpu, Metric::power_draw, std::int64_t{100'000} * second);
    text += recorder.encode(snapshot({gpu}), seconds(second));
  }
  return text;
}

std::int64_t power_of(const Player& player) {
  const auto* number = player.gpus().at(0).sample.number(Metric::power_draw);
  return number != nullptr ? *number : -1;
}

TEST(Player, SeekMovesForwardsAndBack) {
  const TemporaryFile file(ten_seconds());
  auto player = Player::open(file.path());
  ASSERT_TRUE(player) << player.error().message;
  EXPECT_EQ(player->length(), seconds(9));
  for (const int second : {0, 3, 9, 2, 8}) {
    ASSERT_TRUE(player->seek(seconds(second)));
    EXPECT_EQ(power_of(*player), second * 100'000);
  }
  ASSERT_TRUE(player->seek(std::chrono::milliseconds(4'999)));
  EXPECT_EQ(power_of(*player), 400'000);
}

TEST(Player, TruncatedRecordingPlaysToLastCompleteLine) {
  const std::string whole = ten_seconds();
  const TemporaryFile file(whole.substr(0, whole.size() - 5));
  auto player = Player::open(file.path());
  ASSERT_TRUE(player) << player.error().message;
  EXPECT_EQ(player->truncated_line(), 12U);  // header, fleet, ten seconds
  EXPECT_EQ(player->length(), seconds(8));
  ASSERT_TRUE(player->seek(seconds(100)));
  EXPECT_EQ(power_of(*player), 800'000);
}

TEST(Player, AnyTruncationPlaysOrIsRefused) {
  const std::string whole = ten_seconds();
  const TemporaryFile file;
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    file.write(whole.substr(0, length));
    auto player = Player::open(file.path());
    const bool has_header = length > whole.find('\n');
    EXPECT_EQ(player.ok(), has_header) << length;
    EXPECT_TRUE(!player || player->seek(seconds(100)).ok());
  }
}

TEST(Player, InvalidRecordingReportsFileAndLine) {
  const auto problem_of = [](const std::string& text) {
    const TemporaryFile file(text);
    const auto player = Player::open(file.path());
    EXPECT_FALSE(player);
    const std::string message = player ? "" : player.error().message;
    return message.substr(std::min(file.path().size(), message.size()));
  };
  const std::string header = ten_seconds().substr(0, ten_seconds().find('\n') + 1);
  EXPECT_EQ(problem_of("hello\n"), ": not a gpuyard recording");
  EXPECT_EQ(problem_of("{\"gpuyard_recording\":9,\"began_at\":\"\",\"simulated\":false,"
                       "\"driver\":{}}\n"),
            ": the recording has format 9, but this program reads format 1");
  EXPECT_EQ(problem_of(header + "{\"t_ms\":\n").substr(0, 3), ":2:");
  EXPECT_EQ(problem_of(header + "{\"t_ms\":5}\n{\"t_ms\":4}\n"), ":3: its time goes backwards");
  for (const char* absurd : {"-1", "9223372036854775807"}) {
    EXPECT_EQ(problem_of(header + "{\"t_ms\":" + absurd + "}\n"), ":2: /t_ms: out of range");
  }
  EXPECT_EQ(problem_of(header + "{\"t_ms\":5,\"gpu\":7}\n"), ":2: no GPU 7 at this point");
  EXPECT_EQ(problem_of(header + std::string(kMaxLineBytes + 10, 'x') + "\n"),
            ":2: a line is longer than 1048576 bytes");
}

TEST(Player, AFileThatIsNotThereIsNamed) {
  const auto player = Player::open("/nowhere/a.rec");
  ASSERT_FALSE(player);
  EXPECT_NE(player.error().message.find("/nowhere/a.rec"), std::string::npos);
}

TEST(Player, AGpuKeepsItsIdentityWhenItsIndexMoves) {
  RecordingEncoder recorder;
  auto a = device(0, "GPU-a");
  auto b = device(1, "GPU-b");
  set(b, Metric::power_draw, 5'000);
  std::string text = recorder.encode(snapshot({a, b}), seconds(0));
  b.index = 0;
  text += recorder.encode(snapshot({b}), seconds(1));
  const TemporaryFile file(text);
  auto player = Player::open(file.path());
  ASSERT_TRUE(player && player->seek(seconds(1)));
  ASSERT_EQ(player->gpus().size(), 2U);
  EXPECT_FALSE(player->gpus()[0].present);
  EXPECT_TRUE(player->gpus()[1].present);
  EXPECT_EQ(player->gpus()[1].identity.uuid, "GPU-b");
  EXPECT_EQ(*player->gpus()[1].sample.number(Metric::power_draw), 5'000);
}

// Lets every row of a GPU change, go missing or come back at random.
void disturb(protocol::Device& gpu, std::mt19937& random) {
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device || random() % 3 != 0) continue;
    const std::string key = protocol::json_key(row, 0);
    gpu.missing.erase(key);
    if (random() % 4 == 0) {
      gpu.readings.set({row.metric, 0, {}, Missing{}});
      gpu.missing[key] = {MissingReason::failed, "Unknown Error"};
    } else if (row.kind == MetricKind::text) {
      gpu.readings.set({row.metric, 0, {}, std::to_string(random())});
    } else if (row.kind == MetricKind::flags) {
      gpu.readings.set({row.metric, 0, {}, row.words.front().value});
    } else {
      gpu.readings.set({row.metric, 0, {}, static_cast<std::int64_t>(random())});
    }
  }
}

TEST(Player, RecordedReadingsRoundTrip) {
  std::mt19937 random(1);
  RecordingEncoder recorder;
  auto gpu = device(0, "GPU-a");
  std::string text;
  std::vector<protocol::Device> history;
  for (int second = 0; second < 40; ++second) {
    disturb(gpu, random);
    history.push_back(gpu);
    text += recorder.encode(snapshot({gpu}), seconds(second));
  }
  const TemporaryFile file(text);
  auto player = Player::open(file.path());
  ASSERT_TRUE(player) << player.error().message;
  for (std::size_t second = 0; second < history.size(); ++second) {
    ASSERT_TRUE(player->seek(seconds(second)));
    const Sample& played = player->gpus()[0].sample;
    for (const Reading& was : history[second].readings.readings()) {
      const Reading* is = played.find(was.metric);
      ASSERT_NE(is, nullptr);
      EXPECT_EQ(is->missing() == nullptr, was.missing() == nullptr) << row_of(was.metric).key;
      if (is->missing() != nullptr) {
        EXPECT_EQ(describe(*is->missing()), "Unknown Error");
      } else {
        EXPECT_EQ(is->value, was.value) << row_of(was.metric).key;
      }
    }
  }
}

}  // namespace
}  // namespace gpuyard::recording
