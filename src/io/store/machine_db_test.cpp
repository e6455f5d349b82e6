#include "io/store/machine_db.h"

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

KnownBoard board(const std::string& uuid, std::uint32_t index) {
  KnownBoard one{uuid, index, "0000:01:00.0", "NVIDIA H100"};
  one.first_seen = WallTime(std::chrono::milliseconds(1000));
  one.last_seen = WallTime(std::chrono::milliseconds(2000));
  one.boot_id = "b";
  return one;
}

class MachineDbTest : public ::testing::Test {
 protected:
  void save(MachineTransaction changes) {
    bool saved = false;
    EXPECT_TRUE(db_.save(std::move(changes), Durability::full,
                         [&](const Result<void>& done) { saved = done.ok(); }));
    worker_.run_all();
    EXPECT_TRUE(saved);
  }
  Result<std::vector<KnownBoard>> load(const std::string& machine) {
    Result<std::vector<KnownBoard>> boards = Error{Errc::internal, "not loaded"};
    EXPECT_TRUE(
        db_.load(machine, [&](Result<std::vector<KnownBoard>> got) { boards = std::move(got); }));
    worker_.run_all();
    return boards;
  }

  ScratchDirectory directory_;
  ManualWorker worker_;
  StateStore store_{worker_, worker_, directory_.in("state.db"), kStateMigrations};
  MachineDb db_{store_};
};

TEST_F(MachineDbTest, StoredBoardsRoundTrip) {
  KnownBoard sick = board("GPU-b", 1);
  sick.listed = false;
  sick.errors = {Metric::ecc_uncorrected_aggregate, 3, 5, 2, 1, {4711, 4712}, {4713}};
  KnownBoard old = board("GPU-c", 2);
  old.errors.source = Metric::ecc_uncorrected_volatile;
  save({"this", {board("GPU-a", 0), sick, old}});
  const auto boards = load("this");
  ASSERT_TRUE(boards) << boards.error().message;
  EXPECT_EQ(*boards, (std::vector{board("GPU-a", 0), sick, old}));
}

TEST_F(MachineDbTest, AnotherMachineHasOtherBoards) {
  save({"this", {board("GPU-a", 0)}});
  save({"simulated:/w 1", {board("GPU-a", 3)}});
  EXPECT_EQ(load("this")->at(0).index, 0U);
  EXPECT_EQ(load("simulated:/w 1")->at(0).index, 3U);
  EXPECT_TRUE(load("nvml:/x.so")->empty());
}

TEST_F(MachineDbTest, ASimulatedWorldReplacesEarlierOnes) {
  save({"this", {board("GPU-a", 0)}});
  save({"simulated:/w 1", {board("GPU-a", 3)}});
  save({"simulated:/w 2", {board("GPU-a", 4)}, {}, "simulated:"});
  EXPECT_TRUE(load("simulated:/w 1")->empty());
  EXPECT_EQ(load("simulated:/w 2")->size(), 1U);
  EXPECT_EQ(load("this")->size(), 1U);
}

TEST_F(MachineDbTest, RemovedBoardIsDeleted) {
  save({"this", {board("GPU-a", 0), board("GPU-b", 1)}});
  save({"this", {board("GPU-b", 0)}, {"GPU-a"}});
  EXPECT_EQ(*load("this"), std::vector{board("GPU-b", 0)});
}

}  // namespace
}  // namespace gpuyard::store
