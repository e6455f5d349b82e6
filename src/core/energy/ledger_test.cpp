#include "core/energy/ledger.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/energy/snapshots_for_tests.h"

namespace gpuyard::energy {
namespace {

using std::chrono::seconds;

class LedgerTest : public ::testing::Test {
 protected:
  // Each GPU uses 100 W for this time.
  void pass(int for_seconds) {
    now_ += seconds(for_seconds);
    for (TestGpu& gpu : gpus_) {
      if (gpu.counter_mj) *gpu.counter_mj += for_seconds * 100'000LL;
    }
  }
  WallTime wall() const {
    return kWall + std::chrono::milliseconds(to_milliseconds(now_ - TimePoint{}));
  }
  Snapshot snapshot() const { return snapshot_of(gpus_, now_, wall()); }
  void tick(int for_seconds = 1) {
    pass(for_seconds);
    ledger_.record(snapshot());
  }
  std::string begin(const WindowRequest& request = {}) {
    const auto id = ledger_.begin(request, snapshot());
    EXPECT_TRUE(id) << id.error().message;
    return id ? *id : "";
  }
  Error refused(const WindowRequest& request) {
    const auto id = ledger_.begin(request, snapshot());
    EXPECT_FALSE(id);
    return id ? Error{} : id.error();
  }
  // Returns the saved state, as another daemon finds it.
  LedgerState kept() {
    ledger_.mark_all_changed();
    return ledger_.take_transaction().state;
  }
  void restart(const std::string& boot_id = "boot-a") {
    LedgerState books = kept();
    ledger_ = Ledger(boot_id);
    ledger_.restore(std::move(books), now_, wall());
  }

  TimePoint now_{std::chrono::hours(1)};
  std::vector<TestGpu> gpus_{{"GPU-0", 1'000'000}, {"GPU-1", 0}, {"GPU-2", std::nullopt}};
  Ledger ledger_{"boot-a"};
};

TEST_F(LedgerTest, WindowReportsEnergyAndPeakPerGpu) {
  gpus_[2].has_counter = false;
  tick();
  tick(4);
  const auto id = begin({.gpus = {"0", "GPU-2"}, .name = "train", .owner = 1000});
  pass(3);
  gpus_[0].power_mw = 250'000;
  tick(2);
  gpus_[0].power_mw = 100'000;
  tick(5);
  const auto result = ledger_.result(id, now_);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->window.name, "train");
  EXPECT_EQ(result->length, seconds(10));
  ASSERT_EQ(result->gpus.size(), 2U);
  EXPECT_EQ(result->gpus[0].energy_mj, 1'000'000);
  EXPECT_EQ(result->gpus[0].length, seconds(10));
  EXPECT_EQ(result->gpus[0].peak_mw, 250'000);
  EXPECT_FALSE(result->gpus[0].estimated);
  EXPECT_DOUBLE_EQ(*mean_watts(result->gpus[0]), 100);
  EXPECT_EQ(result->gpus[1].energy_mj, 1'000'000);
  EXPECT_TRUE(result->gpus[1].estimated);
}

TEST_F(LedgerTest, CounterResetInWindowLeavesUnknownTime) {
  tick();
  const auto id = begin({.gpus = {"0"}});
  tick(5);
  gpus_[0].counter_mj = 0;
  tick(1);
  tick(4);
  const auto result = ledger_.end(id, now_);
  EXPECT_EQ(result->gpus[0].energy_mj, 1'000'000);
  EXPECT_EQ(result->gpus[0].epochs_crossed, 1U);
  EXPECT_EQ(result->gpus[0].unknown, seconds(1));
}

TEST_F(LedgerTest, AWindowGoesOnInTheNextDaemon) {
  tick();
  const auto id = begin({.gpus = {"1"}, .name = "long", .owner = 1000});
  tick(5);
  restart();
  tick(60);
  tick(5);
  const auto result = ledger_.end(id, now_);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->window.name, "long");
  EXPECT_EQ(result->window.owner, 1000U);
  EXPECT_EQ(result->length, seconds(70));
  EXPECT_EQ(result->gpus[0].energy_mj, 7'000'000);
  EXPECT_EQ(result->gpus[0].epochs_crossed, 0U);
  EXPECT_EQ(ledger_.accounts()[1].state.amounts.daemon_down_mj, 6'000'000);
}

TEST_F(LedgerTest, WindowAcrossRebootKeepsWallTimeLength) {
  tick();
  const auto id = begin({.gpus = {"1"}});
  tick(5);
  LedgerState books = kept();
  ledger_ = Ledger("boot-b");
  const WallTime later = wall() + seconds(100);  // the boot clock started again, the wall clock not
  now_ = TimePoint(seconds(40));
  gpus_[1].counter_mj = 3'000'000;
  ledger_.restore(std::move(books), now_, later);
  ledger_.record(snapshot_of(gpus_, now_, later));
  const auto result = ledger_.result(id, now_);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->length, seconds(105));
  EXPECT_EQ(result->gpus[0].energy_mj, 500'000 + 3'000'000);
  EXPECT_EQ(result->gpus[0].epochs_crossed, 1U);
  EXPECT_EQ(result->gpus[0].unknown, seconds(100));
}

TEST_F(LedgerTest, LateLoadMergesSavedAndCurrentEnergy) {
  tick();
  tick(5);
  const auto old = begin({.gpus = {"0"}});
  LedgerState books = kept();
  ledger_ = Ledger("boot-a");
  tick(10);  // while no daemon ran
  tick(2);
  const auto young = begin({.gpus = {"0"}});
  tick(3);
  ledger_.restore(std::move(books), now_, wall());
  tick(1);
  const Amounts amounts = ledger_.accounts()[0].state.amounts;
  EXPECT_EQ(amounts.unattributed_mj, 500'000 + 600'000);
  EXPECT_EQ(amounts.daemon_down_mj, 1'000'000);
  EXPECT_EQ(ledger_.result(old, now_)->gpus[0].energy_mj, 1'600'000);
  EXPECT_EQ(ledger_.result(young, now_)->gpus[0].energy_mj, 400'000);
}

TEST_F(LedgerTest, BookedEnergyExcludesEarlierDaemonRuns) {
  tick();
  tick(10);
  EXPECT_EQ(ledger_.booked_energy("GPU-0", false)->energy_mj, 1'000'000);
  EXPECT_FALSE(ledger_.booked_energy("GPU-9", false));
  EXPECT_FALSE(ledger_.booked_energy("GPU-0", true));
  restart();
  EXPECT_FALSE(ledger_.booked_energy("GPU-0", false)) << "nothing of this life yet";
  tick(60);  // the first reading of this daemon; the energy before it is of the down time
  EXPECT_EQ(ledger_.booked_energy("GPU-0", false), (EnergyTotal{now_, 0, 0, seconds(0)}));
  tick(10);
  EXPECT_EQ(ledger_.booked_energy("GPU-0", false)->energy_mj, 1'000'000);
}

TEST_F(LedgerTest, LateLoadKeepsBookedEnergyOfCurrentRun) {
  tick();
  tick(10);
  LedgerState books{ledger_.accounts(), {}};
  ledger_ = Ledger("boot-a");
  pass(60);
  tick(1);
  tick(5);
  const auto before = ledger_.booked_energy("GPU-0", false);
  ledger_.restore(std::move(books), now_, wall());
  EXPECT_EQ(ledger_.booked_energy("GPU-0", false), before);
  EXPECT_EQ(before->energy_mj, 500'000);
  gpus_[0].counter_mj = 0;  // reset
  tick(3);
  EXPECT_EQ(ledger_.booked_energy("GPU-0", false)->unknown, seconds(3));
}

TEST_F(LedgerTest, SimulatedGpuWithSameUuidIsSeparate) {
  tick();
  tick(5);
  Snapshot simulated = snapshot();
  simulated.driver.info.simulated = true;
  ledger_.record(simulated);
  const auto id = ledger_.begin({}, simulated);
  now_ += seconds(1);
  *gpus_[0].counter_mj += 7;
  simulated = snapshot();
  simulated.driver.info.simulated = true;
  ledger_.record(simulated);
  EXPECT_EQ(ledger_.end(*id, now_)->gpus[0].energy_mj, 7);
  ASSERT_EQ(ledger_.accounts().size(), 6U);
  EXPECT_EQ(ledger_.accounts()[0].state.amounts.device_mj(), 500'000);
  EXPECT_EQ(ledger_.accounts()[1].state.amounts.device_mj(), 7);
}

TEST_F(LedgerTest, WindowExpiresAtMaxDuration) {
  tick();
  const auto id = begin({.max_duration = seconds(10)});
  tick(9);
  EXPECT_TRUE(ledger_.end_overdue(now_).empty());
  tick(1);
  ASSERT_EQ(ledger_.end_overdue(now_).size(), 1U);
  EXPECT_FALSE(ledger_.find(id));
}

TEST_F(LedgerTest, InvalidWindowRequestGivesReason) {
  tick();
  EXPECT_EQ(refused({.gpus = {"7"}}).code, Errc::not_found);
  EXPECT_EQ(refused({.gpus = {"0", "GPU-0"}}).message, "/gpus/1: names a GPU twice");
  EXPECT_EQ(refused({.gpus = {"0", "9"}}).message, "/gpus/1: GPU index 9 is out of range");
  EXPECT_EQ(refused({.name = std::string(65, 'x')}).code, Errc::invalid);
  EXPECT_EQ(refused({.name = "a\nb"}).code, Errc::invalid);
  EXPECT_EQ(refused({.max_duration = Duration::zero()}).code, Errc::invalid);
  EXPECT_EQ(refused({.max_duration = std::chrono::hours(24 * 31)}).code, Errc::invalid);
}

TEST_F(LedgerTest, GpuWithoutReadingIsUnknownNotZero) {
  gpus_[2].answers = false;
  tick();
  const auto one = begin({.gpus = {"2"}});
  const auto all = begin();
  tick(10);
  const auto alone = ledger_.result(one, now_);
  ASSERT_EQ(alone->gpus.size(), 1U);
  EXPECT_FALSE(alone->gpus[0].known);
  EXPECT_FALSE(alone->is_known());
  EXPECT_EQ(mean_watts(alone->gpus[0]), std::nullopt);
  const auto together = ledger_.result(all, now_);
  ASSERT_EQ(together->gpus.size(), 3U);
  EXPECT_TRUE(together->is_known());
  EXPECT_TRUE(together->is_partial()) << "it lacks a GPU";
  EXPECT_EQ(together->energy_mj(), 2'000'000);
  EXPECT_TRUE(ledger_.result(begin({.gpus = {"0"}}), now_)->is_known())
      << "0 J, as it has just begun";
}

TEST_F(LedgerTest, GpuReadLaterYieldsPartialResult) {
  gpus_[2].has_counter = false;
  gpus_[2].power_mw.reset();
  tick();
  const auto id = begin({.gpus = {"2"}});
  tick(6);
  gpus_[2].power_mw = 100'000;
  tick();
  for (int second = 0; second < 4; ++second) tick();
  const auto result = ledger_.result(id, now_);
  ASSERT_TRUE(result->gpus[0].known);
  EXPECT_EQ(result->gpus[0].energy_mj, 400'000);
  EXPECT_EQ(result->gpus[0].length, seconds(11));
  EXPECT_EQ(result->gpus[0].unknown, seconds(7));
  EXPECT_TRUE(result->is_partial());
}

TEST_F(LedgerTest, LostReadingsMakeWindowPartialOrUnknown) {
  tick();
  const auto before = begin({.gpus = {"0"}});
  tick(4);
  gpus_[0].answers = false;
  const auto after = begin({.gpus = {"0"}});
  tick(10);
  const auto part = ledger_.result(before, now_);
  EXPECT_EQ(part->energy_mj(), 400'000);
  EXPECT_TRUE(part->is_known());
  EXPECT_TRUE(part->is_partial());
  EXPECT_EQ(part->gpus[0].age, seconds(10));
  EXPECT_FALSE(ledger_.result(after, now_)->is_known()) << "nothing was read in it";
}

TEST_F(LedgerTest, WindowOfUnreadGpuSurvivesRestart) {
  gpus_[2].answers = false;
  tick();
  const auto id = begin({.gpus = {"2"}});
  tick(5);
  restart();
  tick(5);
  EXPECT_FALSE(ledger_.result(id, now_)->gpus.at(0).known);
  gpus_[2].answers = true;
  gpus_[2].counter_mj = 9'000'000;
  tick();
  tick(2);
  EXPECT_EQ(ledger_.result(id, now_)->energy_mj(), 200'000);
}

TEST_F(LedgerTest, WindowsAreLimitedPerOwnerAndInTotal) {
  tick();
  const auto fill = [&](uid_t owner) {
    for (std::size_t i = 0; i < Ledger::kMaxWindowsPerOwner; ++i) begin({.owner = owner});
  };
  fill(1);
  EXPECT_EQ(refused({.owner = 1}).code, Errc::busy);
  for (const uid_t owner : {2U, 3U, 4U}) fill(owner);
  EXPECT_EQ(refused({.owner = 5}).code, Errc::busy);
  EXPECT_EQ(ledger_.results(now_).size(), Ledger::kMaxWindows);
  for (std::size_t i = 0; i < Ledger::kReservedForAdmins; ++i)
    begin({.owner = 0, .privileged = true});
  EXPECT_EQ(refused({.owner = 0, .privileged = true}).code, Errc::busy);
}

TEST_F(LedgerTest, TransactionContainsOnlyChangedWindows) {
  tick();
  const auto id = begin();
  EXPECT_EQ(ledger_.take_transaction().state.windows.size(), 1U);
  tick();
  EXPECT_TRUE(ledger_.take_transaction().state.windows.empty());
  gpus_[0].power_mw = 300'000;
  tick();
  EXPECT_EQ(ledger_.take_transaction().state.windows.size(), 1U);
  ASSERT_TRUE(ledger_.end(id, now_));
  EXPECT_EQ(ledger_.take_transaction().ended_windows, std::vector<std::string>{id});
  EXPECT_TRUE(ledger_.take_transaction().ended_windows.empty());
}

// The true use of one GPU, and the part that cannot be known: the model that the ledger is held to.
struct Truth {
  std::int64_t used_mj = 0;     // since it was first read
  std::int64_t lost_mj = 0;     // between the last reading and a reset
  std::int64_t since_read = 0;  // since the last reading
  std::int64_t counter_mj = 0;  // at the last reading
  bool read = false;            // at least once
};

// Edges of windows, resets, restarts, other boots and missing readings come at random: every
// millijoule that a GPU used is booked once, or was lost to a reset between two readings.
class Conservation : public LedgerTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  static constexpr unsigned kMaxStepMj = 700'000;

  void use(TestGpu& gpu, Truth& truth, std::int64_t energy_mj) {
    *gpu.counter_mj += energy_mj;
    if (!truth.read) return;
    truth.used_mj += energy_mj;
    truth.since_read += energy_mj;
  }
  void reset(TestGpu& gpu, Truth& truth) {
    truth.lost_mj += std::exchange(truth.since_read, 0);
    gpu.counter_mj = 0;
  }
  void read(bool edge) {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i].answers = random(4) != 0;
      if (!gpus_[i].answers) continue;
      truths_[i].read = true;
      truths_[i].since_read = 0;
      truths_[i].counter_mj = *gpus_[i].counter_mj;
    }
    if (edge) {
      const auto id = ledger_.begin({}, snapshot());
      if (id) open_.emplace_back(*id, booked());
    } else {
      ledger_.record(snapshot());
    }
  }
  std::vector<std::int64_t> booked() const {
    std::vector<std::int64_t> booked;
    for (const SavedAccount& kept : ledger_.accounts()) {
      booked.push_back(kept.state.amounts.device_mj());
    }
    return booked;
  }
  void end_one() {
    if (open_.empty()) return;
    const auto [id, before] = open_.back();
    open_.pop_back();
    const auto result = ledger_.end(id, now_);
    ASSERT_TRUE(result);
    const auto after = ledger_.accounts();
    for (const GpuResult& gpu : result->gpus) {
      const auto place = static_cast<std::size_t>(
          std::ranges::find(after, gpu.uuid, &SavedAccount::uuid) - after.begin());
      if (place == after.size()) {  // it has not been read yet
        EXPECT_FALSE(gpu.known);
        continue;
      }
      const std::int64_t was = place < before.size() ? before[place] : 0;
      EXPECT_EQ(gpu.energy_mj, booked()[place] - was) << id;
      EXPECT_GE(gpu.energy_mj, 0);
    }
  }
  void check() const {
    for (const SavedAccount& kept : ledger_.accounts()) {
      const auto i = static_cast<std::size_t>(kept.uuid.back() - '0');
      const Truth& truth = truths_[i];
      const Amounts& amounts = kept.state.amounts;
      ASSERT_EQ(amounts.device_mj(), truth.used_mj - truth.lost_mj - truth.since_read)
          << kept.uuid << " with seed " << GetParam();
      ASSERT_EQ(amounts.unattributed_mj + amounts.daemon_down_mj, amounts.device_mj());
    }
  }
  unsigned random(unsigned below) { return static_cast<unsigned>(random_() % below); }

  std::mt19937 random_{GetParam()};
  std::vector<Truth> truths_{3};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> open_;
};

TEST_P(Conservation, EveryMillijouleIsBookedOnce) {
  gpus_[2].counter_mj = 77;
  int boots = 0;
  std::string boot_id = "boot-a";
  for (int step = 0; step < 1000; ++step) {
    now_ += std::chrono::milliseconds(1 + random(3000));
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      use(gpus_[i], truths_[i], random(kMaxStepMj));
      // A reset cannot be seen if the counter is beyond its last reading again when it is next
      // read. The last reading therefore has to be high.
      const bool tells = truths_[i].counter_mj > 10LL * kMaxStepMj;
      if (tells && random(20) == 0) reset(gpus_[i], truths_[i]);
    }
    if (random(50) == 0) {
      if (random(2) == 0) {
        boot_id = "boot-" + std::to_string(++boots);
        for (std::size_t i = 0; i < gpus_.size(); ++i) reset(gpus_[i], truths_[i]);
      }
      restart(boot_id);
    }
    read(random(10) == 0);
    if (random(10) == 0) end_one();
    check();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(ledger_.accounts()[0].state.epoch, 3U) << "the sequence had no resets";
}

INSTANTIATE_TEST_SUITE_P(Seeds, Conservation, ::testing::Range(1U, 41U));

}  // namespace
}  // namespace gpuyard::energy
