// The record of leases survives a crash at any moment: random histories on a disk that remembers
// every write and sync, cut off at each of them, and what is left read again (I1, I2, I9).
//
// GPUYARD_SEED=n begins with that history, and GPUYARD_CASES=n checks n times as many images.
// GPUYARD_SANITIZED=1 checks a sixteenth of the images of as many histories: an image takes most of
// the time, and a memory error depends on the path through the code, not on the image.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "io/store/lease_db.h"
#include "io/store/lease_history_for_tests.h"
#include "io/store/lease_oracle_for_tests.h"
#include "io/store/lease_shell_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using lease::SavedLeases;

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The daemon's store, up to the disk.
struct Daemon {
  explicit Daemon(const FakeDisk& disk, std::vector<OracleState> before = {OracleState()})
      : oracle(db, disk, std::move(before)) {}

  // A checkpoint follows after few pages, so that it happens all the time.
  void prepare() {
    static_cast<void>(store->run(
        Requester::daemon(),
        [](Database& database) -> Result<void> {
          database.set_checkpoint_pages(12);
          return {};
        },
        [](const Result<void>&) {}));
  }
  // Commits something else as control commits its setting claims: a later commit syncs it.
  void commit_unrelated() {
    static_cast<void>(store->run(
        Requester::daemon(),
        [](Database& database) {
          return database.execute(
              "CREATE TABLE IF NOT EXISTS others(b BLOB); "
              "INSERT INTO others VALUES(randomblob(2000)); "
              "DELETE FROM others WHERE rowid < (SELECT max(rowid) FROM others) - 8");
        },
        [](const Result<void>&) {}, Durability::normal));
  }
  Result<SavedLeases> load() {
    prepare();
    std::optional<Result<SavedLeases>> loaded;
    EXPECT_TRUE(oracle.load(oracle.committed(),
                            [&](Result<SavedLeases> kept) { loaded = std::move(kept); }));
    worker.run_all();
    return loaded ? *std::move(loaded) : Result<SavedLeases>(Error{Errc::internal, "no answer"});
  }

  ManualWorker worker;
  ManualLoop loop;
  std::unique_ptr<StateStore> store =
      std::make_unique<StateStore>(worker, worker, FakeDisk::kPath, kStateMigrations);
  LeaseDb db{loop, *store};
  LeaseOracle oracle;
};

class LeaseCrash : public ::testing::Test {
 protected:
  static constexpr int kEventsPerRun = 30;  // that happen in a life

  // Makes the disk fail from here on, or work again. After one step that fails, many more do.
  void set_disk_failing(bool on) {
    if (!on) return disk_.fail(nullptr);
    disk_.fail([this, bad = 0](const DiskStep& step) mutable {
      if (bad == 0 && chance(random_, 0.01)) bad = 1 + static_cast<int>(below(random_, 40));
      if (bad == 0 || chance(random_, 0.3)) return SQLITE_OK;
      --bad;
      return step.kind == DiskStep::Kind::sync ? SQLITE_IOERR_FSYNC : SQLITE_FULL;
    });
  }

  void live(Daemon& daemon) {
    auto kept = daemon.load();
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(daemon.oracle.is_sound()) << "what was read is not what was kept";
    set_disk_failing(chance(random_, 0.3));
    auto history =
        std::make_unique<LeaseHistory>(random_, *kept, daemon.loop.now(), daemon.loop.wall());
    bool failed = false;
    for (int i = 0; i < kEventsPerRun; ++i) {
      ASSERT_TRUE(daemon.oracle.save(std::make_shared<lease::LeaseTransaction>(history->next()),
                                     [&](const Result<void>& done) { failed = failed || !done; }));
      if (chance(random_, 0.6)) daemon.worker.run_all();
      if (chance(random_, 0.3)) daemon.commit_unrelated();
      while (failed) {
        set_disk_failing(chance(random_, 0.5));
        kept = daemon.load();
        ASSERT_TRUE(daemon.oracle.is_sound()) << "what was read again is not what was kept";
        if (!kept) continue;
        failed = false;
        history =
            std::make_unique<LeaseHistory>(random_, *kept, daemon.loop.now(), daemon.loop.wall());
      }
    }
    daemon.worker.run_all();
    set_disk_failing(false);
  }

  // Lives one life with the daemon's own leases and processes that hold them.
  void live_with_processes(Daemon& daemon) {
    daemon.loop.advance(elapsed_);
    daemon.prepare();
    LeaseShell shell(random_, daemon.loop, daemon.oracle, machine_,
                     [this] { return disk_.steps().size(); });
    run(daemon);
    set_disk_failing(chance(random_, 0.3));
    for (int i = 0; i < 2 * kEventsPerRun; ++i) {
      shell.next();
      if (chance(random_, 0.2)) daemon.commit_unrelated();
      if (chance(random_, 0.6)) run(daemon);
      if (chance(random_, 0.02)) set_disk_failing(false);
    }
    set_disk_failing(false);
    run(daemon);
    EXPECT_TRUE(daemon.oracle.is_sound()) << "what was read again is not what was kept";
    if (chance(random_, 0.3)) {
      for (int i = 0; i < 10 && !shell.can_grant(); ++i) {
        daemon.loop.advance(lease::LeaseManager::kLoadRetryDelay);
        run(daemon);
      }
      EXPECT_TRUE(shell.can_grant()) << "the disk is well, and nothing can be granted";
    }
    recorded_ = shell.recorded();
    grants_ += recorded_.size();
    elapsed_ += daemon.loop.now() - ManualLoop().now();
    run(daemon);
  }
  static void run(Daemon& daemon) {
    for (int i = 0; i < 3; ++i) {
      daemon.worker.run_all();
      daemon.loop.run_posted();
    }
  }

  // Checks what a daemon finds that begins on this disk.
  void check_image(const DiskState& image, const LeaseOracle& oracle, std::size_t step) {
    ++images_;
    disk_.insert(image);
    Daemon daemon(disk_);
    const auto kept = daemon.load();
    ASSERT_TRUE(kept) << kept.error().message;
    ASSERT_TRUE(daemon.store->notes().empty()) << daemon.store->notes()[0];
    const OracleState found(*kept);
    EXPECT_EQ(found.find_shared_gpu(), "") << "I1";
    const auto [first, last] = oracle.possible_states(step);
    EXPECT_GE(found.last_fence, first->state.last_fence) << "I2";
    EXPECT_TRUE(oracle.allows(found, step))
        << "I9: " << kept->leases.size() << " leases, fence " << found.last_fence << "; told were "
        << first->state.leases.size() << " and " << first->state.last_fence << ", asked for "
        << last - first - 1 << " entries more";
    for (const LeaseShell::RecordedReply& reply : recorded_) {
      if (reply.step > step) break;
      const auto lease = found.leases.find(reply.lease);
      EXPECT_TRUE(lease != found.leases.end() && lease->second.fence == reply.fence)
          << "I4: a grant of " << reply.lease << " with fence " << reply.fence << " was heard of";
    }
    disk_.insert({});  // killed
  }

  // Ends a life at many of its moments, by a kill or by a power cut.
  void crash_anywhere(DiskState state, const std::vector<DiskStep>& steps,
                      const LeaseOracle& oracle) {
    for (std::size_t step = 0; step <= steps.size() && !HasFailure(); ++step) {
      SCOPED_TRACE("before step " + std::to_string(step) + " of " + std::to_string(steps.size()));
      if (chance(random_, 0.05 * share_)) check_image(state, oracle, step);
      if (chance(random_, 0.3 * share_)) {
        DiskState image = state;
        image.cut(random_);
        check_image(image, oracle, step);
      }
      if (step < steps.size()) state.take(steps[step]);
    }
  }

  // Runs several lives, each on what a crash has left of the one before.
  using Life = std::function<void(Daemon&)>;
  void chain(std::uint64_t seed, const Life& one_life) {
    SCOPED_TRACE("GPUYARD_SEED=" + std::to_string(seed));
    random_.seed(seed);
    FakeDisk::seed(static_cast<std::uint32_t>(seed));
    DiskState state;
    std::vector<OracleState> before = {OracleState()};
    machine_ = {};
    elapsed_ = {};
    for (int life = 0; life < 4 && !HasFatalFailure() && !HasFailure(); ++life) {
      disk_.insert(state);
      auto daemon = std::make_unique<Daemon>(disk_, before);
      one_life(*daemon);
      failed_ += daemon->oracle.failed();
      if (HasFatalFailure()) return;
      if (chance(random_, 0.3)) daemon->store.reset();  // an orderly end
      const std::vector<DiskStep> steps = disk_.steps();
      DiskState end = disk_.state();
      disk_.insert({});
      daemon->store.reset();
      crash_anywhere(state, steps, daemon->oracle);
      if (chance(random_, 0.7)) {
        end.cut(random_);
        machine_.running.clear();
        ++machine_.boots;
      }
      state = std::move(end);
      check_image(state, daemon->oracle, steps.size());
      before = daemon->oracle.states(steps.size());
    }
  }

  void check_images(std::uint64_t images, const char* what, const Life& one_life) {
    const double wanted = static_cast<double>(images * number_in("GPUYARD_CASES", 1)) * share_;
    const std::uint64_t seed = number_in("GPUYARD_SEED", std::random_device{}());
    const std::clock_t began = std::clock();
    std::uint64_t chains = 0;
    while (static_cast<double>(images_) < wanted && !HasFailure()) chain(seed + chains++, one_life);
    std::cout << images_ << " crash images of " << chains << " histories of " << what
              << " from GPUYARD_SEED=" << seed << " on, with " << failed_ << " failed entries, in "
              << static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC << " s\n";
  }

  CapturedLog log_;
  FakeDisk disk_;
  Random random_;
  LeaseShell::Machine machine_;
  Duration elapsed_{};  // of the lives before
  std::vector<LeaseShell::RecordedReply> recorded_;
  const double share_ = number_in("GPUYARD_SANITIZED", 0) == 0 ? 1 : 1.0 / 16;  // of the images
  std::uint64_t images_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t grants_ = 0;  // that a client was notified of
};

TEST_F(LeaseCrash, RecoveredStateIsPrefixWithAllAcknowledgedCommits) {
  check_images(4'000, "entries", [this](Daemon& daemon) { live(daemon); });
}

TEST_F(LeaseCrash, ReportedGrantSurvivesWithFence) {
  check_images(8'000, "processes", [this](Daemon& daemon) { live_with_processes(daemon); });
  EXPECT_GT(grants_, images_ / 100);
}

}  // namespace
}  // namespace gpuyard::store
