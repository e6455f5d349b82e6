#include "core/bottleneck/bottleneck_spans.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "gpu/device/record_archive_for_tests.h"

namespace gpuyard::bottleneck {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using enum BottleneckCause;

const WallTime kBegin{milliseconds(1'700'000'000'000)};

class BottleneckRecorderTest : public ::testing::Test {
 protected:
  static Bottleneck bottleneck_of(BottleneckCause cause, std::optional<std::int64_t> share = {}) {
    Bottleneck found;
    found.cause = cause;
    found.share_percent = share;
    found.text = share ? "held back " + std::to_string(*share) + "%" : "a state";
    return found;
  }
  // A snapshot for each second.
  void see(const Bottleneck& found, int count = 1) {
    for (int i = 0; i < count; ++i) {
      now_ += seconds(1);
      publish_snapshot({{"GPU-1", found}});
    }
  }
  void publish_snapshot(const std::map<DeviceId, Bottleneck>& gpus) {
    Snapshot snapshot;
    snapshot.taken = now_;
    snapshot.wall = kBegin + set_by_ + std::chrono::duration_cast<seconds>(now_.time_since_epoch());
    for (const auto& [id, found] : gpus) {
      DeviceState& gpu = snapshot.devices.emplace_back();
      gpu.info.id = id;
      gpu.bottleneck = found;
    }
    book_.on_snapshot(snapshot);
    worker_.run_all();
  }
  std::vector<BottleneckSpan> ask(WallTime from, WallTime until) {
    auto got =
        merge_open_records<BottleneckSpan>({from, until, {}, 1000}, *archive_, book_.open_spans());
    EXPECT_TRUE(got);
    return got ? *std::move(got) : std::vector<BottleneckSpan>{};
  }
  std::vector<BottleneckSpan> all() {
    return ask(kBegin - std::chrono::hours(1), kBegin + std::chrono::hours(24));
  }
  static seconds length(const BottleneckSpan& spell) {
    return std::chrono::duration_cast<seconds>(spell.last_seen - spell.first_seen);
  }

  ManualWorker worker_;
  std::shared_ptr<FakeRecordArchive<BottleneckSpan>> archive_ =
      std::make_shared<FakeRecordArchive<BottleneckSpan>>();
  BottleneckRecorder book_{worker_, archive_};
  TimePoint now_{seconds(1000)};
  seconds set_by_{0};
};

TEST_F(BottleneckRecorderTest, SpanLastsUntilNextCause) {
  see(bottleneck_of(heat, 20), 30);
  see(bottleneck_of(none), 15);
  const auto spells = all();
  ASSERT_THAT(spells, SizeIs(2));
  EXPECT_EQ(spells[0].bottleneck.cause, none);
  EXPECT_FALSE(spells[0].over);
  EXPECT_EQ(spells[1].bottleneck.cause, heat);
  EXPECT_TRUE(spells[1].over);
  EXPECT_EQ(length(spells[1]), seconds(30));
  EXPECT_EQ(spells[1].last_seen, spells[0].first_seen) << "no time between them is lost";
}

TEST_F(BottleneckRecorderTest, SpanKeepsWorstShare) {
  see(bottleneck_of(heat, 20), 5);
  see(bottleneck_of(heat, 61));
  see(bottleneck_of(heat, 15), 5);
  EXPECT_EQ(all().at(0).bottleneck.text, "held back 61%");
}

TEST_F(BottleneckRecorderTest, StateSpanKeepsNewestText) {
  see(bottleneck_of(lost));
  Bottleneck longer = bottleneck_of(lost);
  longer.text = "is lost for 2h";
  see(longer);
  EXPECT_EQ(all().at(0).bottleneck.text, "is lost for 2h");
}

TEST_F(BottleneckRecorderTest, FlappingCauseRespectsMinSpanLength) {
  constexpr int kHour = 3600;
  for (int i = 0; i < kHour / 2; ++i) {
    see(bottleneck_of(heat, 20));
    see(bottleneck_of(none));
  }
  const auto spells = all();
  EXPECT_LE(spells.size(), static_cast<std::size_t>(kHour / 10));
  for (const BottleneckSpan& spell : spells) {
    EXPECT_TRUE(!spell.over || length(spell) >= BottleneckRecorder::kMinSpanDuration);
  }
  EXPECT_THAT(archive_->kept, SizeIs(spells.size()));
}

TEST_F(BottleneckRecorderTest, PersistingCauseEndsShortSpan) {
  see(bottleneck_of(none), 3);
  see(bottleneck_of(lost), 20);
  const auto spells = all();
  ASSERT_THAT(spells, SizeIs(2));
  EXPECT_EQ(length(spells[1]), BottleneckRecorder::kMinSpanDuration);
  EXPECT_EQ(spells[0].bottleneck.cause, lost);
}

TEST_F(BottleneckRecorderTest, GapEndsSpan) {
  see(bottleneck_of(none), 20);
  now_ += seconds(60);  // the machine slept
  see(bottleneck_of(none), 20);
  const auto spells = all();
  ASSERT_THAT(spells, SizeIs(2));
  EXPECT_EQ(length(spells[0]), seconds(19));
  EXPECT_EQ(length(spells[1]), seconds(19));
  EXPECT_TRUE(spells[1].over);
}

TEST_F(BottleneckRecorderTest, ClockSetBackEndsSpan) {
  see(bottleneck_of(none), 100);
  set_by_ = seconds(-60);
  see(bottleneck_of(none), 100);
  const auto spells = all();
  ASSERT_THAT(spells, SizeIs(2));
  EXPECT_THAT(duration_by_cause(spells, "GPU-1", kBegin, kBegin + seconds(5000)),
              ElementsAre(Pair(none, seconds(139))))
      << "what both have counts once";
}

TEST_F(BottleneckRecorderTest, AbsentGpuEndsOnlyItsSpan) {
  now_ += seconds(1);
  publish_snapshot({{"GPU-1", bottleneck_of(none)}, {"GPU-2", bottleneck_of(heat, 20)}});
  see(bottleneck_of(none));
  for (const BottleneckSpan& spell : all())
    EXPECT_EQ(spell.over, spell.gpu == "GPU-2") << spell.gpu;
}

TEST_F(BottleneckRecorderTest, StartIsWrittenImmediatelyAndEndEveryMinute) {
  see(bottleneck_of(heat, 20));
  EXPECT_THAT(archive_->kept, SizeIs(1));
  EXPECT_EQ(archive_->puts, 1);
  see(bottleneck_of(heat, 20), 60);
  EXPECT_EQ(archive_->puts, 2);
  EXPECT_EQ(length(archive_->kept.at(0)), seconds(60));
}

TEST_F(BottleneckRecorderTest, SpanOfKilledDaemonEndsAtLastPut) {
  archive_->kept.push_back({"GPU-1", bottleneck_of(heat, 20), kBegin, kBegin + seconds(60), false});
  const auto spells = all();
  EXPECT_TRUE(spells.at(0).over);
  EXPECT_NE(span_at(spells, "GPU-1", kBegin + seconds(59)), nullptr);
  EXPECT_EQ(span_at(spells, "GPU-1", kBegin + seconds(60)), nullptr);
}

TEST_F(BottleneckRecorderTest, FlushWritesOpenSpan) {
  see(bottleneck_of(heat, 20), 20);
  book_.flush();
  worker_.run_all();
  EXPECT_EQ(length(archive_->kept.at(0)), seconds(19));
}

TEST_F(BottleneckRecorderTest, SharedMomentBelongsToNewestSpan) {
  see(bottleneck_of(heat, 20), 20);
  see(bottleneck_of(none), 20);
  const auto spells = all();
  const WallTime change = spells.at(0).first_seen;
  EXPECT_EQ(span_at(spells, "GPU-1", change)->bottleneck.cause, none);
  EXPECT_EQ(span_at(spells, "GPU-1", change - milliseconds(1))->bottleneck.cause, heat);
  EXPECT_EQ(span_at(spells, "GPU-1", spells[0].last_seen + milliseconds(900))->bottleneck.cause,
            none)
      << "between two snapshots";
  EXPECT_EQ(span_at(spells, "GPU-1", spells[1].first_seen - milliseconds(1)), nullptr);
  EXPECT_EQ(span_at(spells, "GPU-2", change), nullptr);
}

// A daemon that is killed right after a change leaves a span without a length.
TEST_F(BottleneckRecorderTest, ZeroLengthSpanCoversItsMoment) {
  archive_->kept.push_back({"GPU-1", bottleneck_of(none), kBegin, kBegin, false});
  archive_->kept.push_back({"GPU-1", bottleneck_of(heat, 20), kBegin - seconds(60), kBegin, true});
  const auto spells = all();
  EXPECT_EQ(span_at(spells, "GPU-1", kBegin)->bottleneck.cause, none);
  EXPECT_EQ(span_at(spells, "GPU-1", kBegin - milliseconds(1))->bottleneck.cause, heat);
  EXPECT_EQ(span_at(spells, "GPU-1", kBegin + milliseconds(1)), nullptr);
}

TEST_F(BottleneckRecorderTest, DurationsAreClippedToQueriedRange) {
  see(bottleneck_of(heat, 20), 20);
  see(bottleneck_of(none), 20);
  const WallTime change = all().at(0).first_seen;
  const auto spells = ask(change - seconds(5), change + seconds(8));
  EXPECT_THAT(duration_by_cause(spells, "GPU-1", change - seconds(5), change + seconds(8)),
              ElementsAre(Pair(heat, seconds(5)), Pair(none, seconds(8))));
  EXPECT_THAT(duration_by_cause({}, "GPU-1", kBegin, kBegin + seconds(5)), IsEmpty());
}

}  // namespace
}  // namespace gpuyard::bottleneck
