#include "core/history/history.h"

#include <optional>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "core/history/store_for_tests.h"

namespace gpuyard::history {
namespace {

using namespace std::chrono_literals;

class HistoryTest : public ::testing::Test {
 protected:
  // Takes one reading a second for this time.
  void run_for(std::chrono::seconds seconds) {
    for (std::chrono::seconds passed{0}; passed < seconds; passed += 1s) {
      history_.on_snapshot(snapshot());
      worker_.run_all();
      loop_.advance(1s);
    }
  }
  // Reads nothing for this time, as if the machine sleeps or the daemon's loop hangs.
  void sleep_for(std::chrono::seconds seconds) { loop_.advance(seconds); }

  Snapshot snapshot() {
    Snapshot snapshot;
    snapshot.taken = loop_.now();
    snapshot.wall = loop_.wall();
    for (std::size_t i = 0; i < uuids_.size(); ++i) {
      DeviceState state;
      state.info = {uuids_[i], static_cast<std::uint32_t>(i), uuids_[i], "", "GPU", {}};
      state.sample.set({Metric::power_draw, 0, loop_.now(), ++fed_});
      snapshot.devices.push_back(std::move(state));
    }
    return snapshot;
  }

  QueryResult ask(std::chrono::milliseconds since, const std::string& uuid = "GPU-1") {
    Query query{uuid, &row_of(Metric::power_draw), 0, history_.now_ms() - since.count(),
                history_.now_ms() + 1};
    query.points = kMaxPoints;
    QueryResult got;
    history_.query(
        {query},
        [&](const std::vector<QueryResult>& answers) {
          got = answers.at(0);
          return std::string("rendered");
        },
        [](const Result<std::string>& text) { EXPECT_EQ(*text, "rendered"); });
    worker_.run_all();
    return got;
  }

  static std::vector<std::int64_t> values(const QueryResult& answer) {
    std::vector<std::int64_t> out;
    for (const TimelinePoint& point : answer.points) {
      if (point.aggregate.count > 0) out.push_back(point.aggregate.min);
    }
    return out;
  }
  static std::size_t gaps(const QueryResult& answer) {
    return answer.points.size() - values(answer).size();
  }
  static bool in_order(const QueryResult& answer) {
    for (std::size_t i = 1; i < answer.points.size(); ++i) {
      if (answer.points[i - 1].wall_ms >= answer.points[i].wall_ms) return false;
    }
    return true;
  }

  ManualLoop loop_;
  ManualWorker worker_;
  std::shared_ptr<FakeMinuteStorage> store_ = std::make_shared<FakeMinuteStorage>();
  std::vector<std::string> uuids_ = {"GPU-1"};
  std::int64_t fed_ = 0;
  History history_{loop_, worker_, store_, "boot"};
};

TEST_F(HistoryTest, ClockSetForwardKeepsPointsInOrder) {
  run_for(100s);
  loop_.step_wall(1h);
  run_for(100s);
  const QueryResult answer = ask(300s);
  EXPECT_EQ(values(answer).size(), 200U);
  EXPECT_EQ(gaps(answer), 0U);
  EXPECT_TRUE(in_order(answer));
  EXPECT_EQ(answer.points.back().wall_ms, history_.now_ms() - 1000);
}

TEST_F(HistoryTest, ClockSetBackKeepsPointsInOrder) {
  run_for(100s);
  loop_.step_wall(-1h);
  run_for(100s);
  const QueryResult answer = ask(300s);
  EXPECT_EQ(values(answer).size(), 200U);
  EXPECT_EQ(gaps(answer), 0U);
  EXPECT_TRUE(in_order(answer));
}

TEST_F(HistoryTest, SuspendIsAGap) {
  run_for(50s);
  sleep_for(1800s);
  run_for(50s);
  const QueryResult answer = ask(3000s);
  EXPECT_EQ(values(answer).size(), 100U);
  EXPECT_EQ(gaps(answer), 1U);
  EXPECT_TRUE(in_order(answer));
}

TEST_F(HistoryTest, GpuReturningUnderNewIndexHasGap) {
  uuids_ = {"GPU-1", "GPU-2"};
  run_for(30s);
  uuids_ = {"GPU-2"};
  run_for(30s);
  uuids_ = {"GPU-2", "GPU-1"};
  run_for(30s);
  const QueryResult answer = ask(100s);
  EXPECT_EQ(values(answer).size(), 60U);
  EXPECT_EQ(gaps(answer), 1U);
  EXPECT_EQ(gaps(ask(100s, "GPU-2")), 0U);
}

TEST_F(HistoryTest, NewMinutesAreStoredEveryFiveMinutes) {
  run_for(299s);
  EXPECT_EQ(store_->puts, 0);
  run_for(3s);
  EXPECT_EQ(store_->puts, 1);
  ASSERT_EQ(store_->stored.size(), 1U);
  EXPECT_EQ(store_->stored[0].key, (SeriesKey{"GPU-1", "power_draw_w", 0}));
  EXPECT_EQ(store_->stored[0].buckets.size(), 6U);
  EXPECT_EQ(store_->stored[0].buckets[1].aggregate.count, 60U);
  EXPECT_EQ(store_->run.boot_id, "boot");
}

TEST_F(HistoryTest, EachPutHasAllOfItsHour) {
  run_for(1200s);
  EXPECT_EQ(store_->stored.back().buckets.size(), 16U);
  run_for(2 * 3600s);
  const auto& last = store_->stored.back().buckets;
  EXPECT_EQ(last.front().at_ms % kHourMs, 0);
  EXPECT_LE(last.size(), 65U) << "hours that are on disk are not put again";
}

TEST_F(HistoryTest, FailedPutIsRetriedWithNewerMinutes) {
  store_->broken = Error{Errc::unavailable, "full"};
  run_for(2 * 3600s);
  EXPECT_GT(store_->puts, 20);
  store_->broken.reset();
  run_for(301s);
  EXPECT_GE(store_->stored.front().buckets.size(), 120U);
}

TEST_F(HistoryTest, GpusArePutOneAtATime) {
  uuids_ = {"A", "B", "C", "D"};
  for (int second = 0; second < 310; ++second) {
    history_.on_snapshot(snapshot());
    EXPECT_LE(worker_.waiting(), 1U);
    worker_.run_all();
    loop_.advance(1s);
  }
  EXPECT_EQ(store_->puts, 4);
}

TEST_F(HistoryTest, FlushPutsEverything) {
  uuids_ = {"A", "B"};
  run_for(30s);
  history_.flush();
  worker_.run_all();
  EXPECT_EQ(store_->puts, 2);
}

TEST_F(HistoryTest, FullWorkerQueueIsBusy) {
  run_for(10s);
  const Query query{"GPU-1", &row_of(Metric::power_draw), 0, 0, history_.now_ms()};
  worker_.full = true;
  std::optional<Errc> said;
  history_.query(
      {query}, [](const std::vector<QueryResult>&) { return std::string(); },
      [&](const Result<std::string>& text) { said = text.error().code; });
  EXPECT_EQ(said, Errc::busy);
}

TEST_F(HistoryTest, UnknownGpuHasNoPoints) {
  run_for(10s);
  EXPECT_TRUE(ask(100s, "GPU-none").points.empty());
}

}  // namespace
}  // namespace gpuyard::history
