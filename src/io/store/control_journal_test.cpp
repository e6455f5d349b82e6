#include "io/store/control_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "base/unique_fd.h"
#include "io/store/control_db.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::CommitTiming;
using control::ControlTransaction;
using control::ManagedSetting;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kBoot = "boot-1";
constexpr const char* kOwner = "0123456789abcdef";

ManagedSetting limit_of(const DeviceId& gpu, std::int64_t milliwatts) {
  ManagedSetting managed{gpu, SettingKind::power_limit};
  managed.boot_id = kBoot;
  managed.baseline = power_limit(700'000);
  managed.written = power_limit(milliwatts);
  managed.replaced = power_limit(milliwatts + 1);
  managed.status = control::SettingStatus::pending_reboot;
  managed.claims = {{"uid 1000", {milliwatts, milliwatts}, WallTime(milliseconds(5))},
                    {"zeus:1001",
                     {milliwatts + 1, milliwatts + 2},
                     WallTime(milliseconds(6)),
                     TimePoint(seconds(7)),
                     WallTime(milliseconds(8))}};
  return managed;
}

ControlTransaction put_of(const ManagedSetting& managed) {
  ControlTransaction transaction;
  transaction.put = managed;
  return transaction;
}

ControlTransaction audit_of(int number) {
  ControlTransaction transaction;
  AuditEntry& entry = transaction.audit.emplace();
  entry.at = WallTime(milliseconds(9));
  entry.by = "uid 1000";
  entry.action = "set power_limit to 300 W";
  entry.gpu = "GPU-0";
  entry.index = 3;
  entry.before = "700 W";
  entry.outcome = "applied";
  entry.error = "why \xc3\xa9";
  entry.forced = true;
  entry.took = Duration(number);
  entry.source = AuditEntry::Source::administrator;
  return transaction;
}

// A directory that is in a tmpfs, as the runtime directory of a service is.
class ControlJournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<ControlJournal> open(const char* boot = kBoot) {
    auto opened = ControlJournal::open(runtime_.path(), kOwner, boot);
    EXPECT_TRUE(opened) << opened.error().text();
    return *std::move(opened);
  }
  std::string file() const { return runtime_.in(fmt::format("control-{}.journal", kOwner)); }
  // Changes bytes of the file as a daemon that was killed may leave them.
  void overwrite(off_t at, std::string_view bytes) {
    const UniqueFd fd(::open(file().c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), at), std::ssize(bytes));
  }

  ScratchDirectory runtime_{"/dev/shm"};
};

TEST_F(ControlJournalTest, RecordsComeBackExactlyAndInOrder) {
  std::vector<std::string> written;
  {
    const auto journal = open();
    ControlTransaction removed;
    removed.removed = ManagedSetting{"GPU-1", SettingKind::gpu_clocks};
    for (const auto& one : {put_of(limit_of("GPU-0", 300'000)), removed, audit_of(1)}) {
      EXPECT_TRUE(journal->append(one));
      written.push_back(encode(one));
    }
  }
  const auto records = open()->records();
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 3U);
  EXPECT_EQ(records->at(0).put, limit_of("GPU-0", 300'000));
  EXPECT_EQ(records->at(1).removed->gpu, "GPU-1");
  EXPECT_EQ(records->at(1).removed->kind, SettingKind::gpu_clocks);
  EXPECT_EQ(records->at(2).audit, audit_of(1).audit);
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_EQ(encode(records->at(i)), written[i]);
  // Another state directory has a file of its own.
  const auto other = ControlJournal::open(runtime_.path(), "fedcba9876543210", kBoot);
  EXPECT_TRUE((*other)->records()->empty());
  EXPECT_EQ(open()->records()->size(), 3U);
  EXPECT_EQ(std::filesystem::status(file()).permissions(), std::filesystem::perms(0600));
}

TEST_F(ControlJournalTest, RecordWithoutItsLengthDoesNotExist) {
  {
    const auto journal = open();
    ASSERT_TRUE(journal->append(audit_of(1)));
    ASSERT_TRUE(journal->append(audit_of(2)));
  }
  constexpr off_t kFirstRecord = 4096 + 8;
  const auto padded = (encode(audit_of(1)).size() + 3) / 4 * 4;
  overwrite(kFirstRecord + 4 + static_cast<off_t>(padded), std::string(4, '\0'));
  EXPECT_EQ(open()->records()->size(), 1U);
  overwrite(kFirstRecord, "\xff\xff\xff\x7f");
  EXPECT_EQ(open()->records().error().code, Errc::invalid);
}

TEST_F(ControlJournalTest, AppendsToFreeBankWhileOtherIsSealed) {
  const auto journal = open();
  int first = 0;
  while (journal->append(audit_of(first))) ++first;
  EXPECT_GT(first, 50);
  const auto sealed = journal->seal();
  int second = 0;
  while (journal->append(audit_of(second))) ++second;
  EXPECT_EQ(second, first);
  EXPECT_EQ(journal->records()->size(), static_cast<std::size_t>(2 * first));
  EXPECT_EQ(journal->records()->front().audit->took, Duration(0));
  journal->clear(sealed);
  const auto both = journal->seal();
  EXPECT_TRUE(journal->append(put_of(limit_of("GPU-0", 1))));
  // The bank that was written to last is the last, wherever it lies.
  EXPECT_TRUE(journal->records()->back().put);
  journal->clear(both);
  EXPECT_EQ(journal->records()->size(), 1U);
}

TEST_F(ControlJournalTest, RecordsOfOtherBootOrLayoutAreDropped) {
  ASSERT_TRUE(open()->append(audit_of(1)));
  EXPECT_EQ(open()->records()->size(), 1U);
  EXPECT_TRUE(open("boot-2")->records()->empty());
  EXPECT_TRUE(open()->records()->empty());
  ASSERT_TRUE(open()->append(audit_of(1)));
  overwrite(0, "control journal 0");
  EXPECT_TRUE(open()->records()->empty());
}

TEST_F(ControlJournalTest, OpensOnlyItsOwnFileInATmpfs) {
  const auto error_in = [](const std::string& directory) {
    const auto opened = ControlJournal::open(directory, kOwner, kBoot);
    return opened ? std::optional<Errc>() : opened.error().code;
  };
  const ScratchDirectory on_disk("/var/tmp");
  EXPECT_EQ(error_in(on_disk.path()), Errc::unsupported);
  EXPECT_TRUE(std::filesystem::is_empty(on_disk.path()));
  EXPECT_EQ(error_in(runtime_.in("missing")), Errc::unavailable);
  std::filesystem::create_symlink("elsewhere", file());
  EXPECT_EQ(error_in(runtime_.path()), Errc::unavailable);
  std::filesystem::remove(file());
  runtime_.write("control-0123456789abcdef.journal", "", 0644);
  EXPECT_EQ(error_in(runtime_.path()), Errc::denied);
}

TEST_F(ControlJournalTest, HasOneDaemonAtATime) {
  const auto journal = open();
  EXPECT_EQ(ControlJournal::open(runtime_.path(), kOwner, kBoot).error().code, Errc::conflict);
  EXPECT_TRUE(journal->has_name());
  std::filesystem::remove(file());
  EXPECT_FALSE(journal->has_name());
}

TEST_F(ControlJournalTest, IsRemovedOnlyWhenEmpty) {
  const auto journal = open();
  ASSERT_TRUE(journal->append(audit_of(1)));
  journal->remove_if_empty();
  EXPECT_TRUE(ControlJournal::exists(runtime_.path(), kOwner));
  journal->clear(journal->seal());
  journal->remove_if_empty();
  EXPECT_FALSE(ControlJournal::exists(runtime_.path(), kOwner));
}

TEST(StateId, IsNewWhenItIsRenewed) {
  const ScratchDirectory state;
  EXPECT_EQ(state_id(state.path()).error().code, Errc::not_found);
  const auto first = renew_state_id(state.path());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*state_id(state.path()), *first);
  EXPECT_NE(*renew_state_id(state.path()), *first);
  EXPECT_NE(*state_id(state.path()), *first);
  state.write("id", "../../x\n");
  EXPECT_EQ(state_id(state.path()).error().code, Errc::not_found);
}

// A daemon's half of the storage, over a disk and a runtime directory that outlive it.
class DaemonStorage {
 public:
  DaemonStorage(const std::string& state, const std::string& runtime)
      : store_(worker_, worker_, state + "/state.db", kStateMigrations), db_(loop_, store_) {
    std::unique_ptr<ControlJournal> left_over;
    if (const auto id = state_id(state); id && ControlJournal::exists(runtime, *id)) {
      auto opened = ControlJournal::open(runtime, *id, kBoot);
      EXPECT_TRUE(opened) << opened.error().text();
      if (opened) left_over = *std::move(opened);
    }
    db_.use_journal(std::move(left_over), [state, runtime] {
      auto begun = ControlJournal::open(runtime, *renew_state_id(state), kBoot);
      EXPECT_TRUE(begun) << begun.error().text();
      return begun ? *std::move(begun) : nullptr;
    });
    EXPECT_TRUE(db_.load([this](Result<std::vector<ManagedSetting>> all) {
      EXPECT_TRUE(all) << all.error().text();
      if (all) settings = *std::move(all);
    }));
    worker_.run_all();
  }

  std::multiset<Duration> audits() {
    std::multiset<Duration> took;
    EXPECT_TRUE(db_.query_audit({"", 10'000, {}}, [&](Result<std::vector<AuditEntry>> entries) {
      for (const AuditEntry& one : *entries) took.insert(one.took);
    }));
    worker_.run_all();
    return took;
  }
  void run_sql(const std::string& text) {
    EXPECT_TRUE(store_.run(
        Requester::daemon(), [text](Database& database) { return database.execute(text.c_str()); },
        [](const Result<void>& done) { EXPECT_TRUE(done.ok()); }));
    worker_.run_all();
  }

  std::vector<ManagedSetting> settings;  // as they were at its start
  ManualLoop loop_;
  ManualWorker worker_;
  StateStore store_;
  ControlDb db_;
};

// Kills a daemon after each step, and starts the next on a copy of what it has left.
class ControlCrash : public ::testing::Test {
 protected:
  void expect_recoverable(const std::string& when) {
    const ScratchDirectory state;
    const ScratchDirectory runtime("/dev/shm");
    const auto all = std::filesystem::copy_options::recursive;
    std::filesystem::copy(state_.path(), state.path(), all);
    std::filesystem::copy(runtime_.path(), runtime.path(), all);
    if (auto repaired = Database::open(state.in("state.db"), Durability::normal)) {
      EXPECT_TRUE(repaired->execute("DROP TRIGGER IF EXISTS broken"));
    }
    DaemonStorage next(state.path(), runtime.path());
    const auto found =
        std::ranges::find(next.settings, SettingKind::power_limit, &ManagedSetting::kind);
    const std::optional<ManagedSetting> limit =
        found == next.settings.end() ? std::nullopt : std::optional(*found);
    EXPECT_TRUE(limit == promised_ || (unanswered_ && limit == *unanswered_)) << when;
    const auto audits = next.audits();
    EXPECT_TRUE(std::ranges::includes(audits, audits_)) << when;
    auto known = audits_;
    known.insert(lost_.begin(), lost_.end());
    EXPECT_TRUE(std::ranges::includes(known, audits)) << when;
  }

  // One change of a power limit, as GpuQueue makes it.
  void change(int number) {
    DaemonStorage& daemon = *daemon_;
    const std::string name = fmt::format("change {}", number);
    ManagedSetting intent = limit_of("GPU-0", 300'000 + number);
    const auto on_saved = [](const Result<void>&) {};
    if (daemon.db_.record(put_of(intent), on_saved)) {
      ++recorded_;
      promised_ = intent;
    } else {
      unanswered_ = intent;
      bool failed = false;
      ASSERT_TRUE(daemon.db_.save(put_of(intent), CommitTiming::now, [&](const Result<void>& done) {
        failed = !done;
        if (done) promised_ = intent;
      }));
      while (daemon.worker_.waiting() > 0) {
        expect_recoverable(name + " waits for state.db");
        daemon.worker_.run_one();
      }
      unanswered_.reset();
      if (failed) return expect_recoverable(name + " is refused");
    }
    expect_recoverable(name + " is recorded, and the driver may have been asked");
    intent.replaced.reset();
    promised_ = intent;
    ASSERT_TRUE(daemon.db_.save(put_of(intent), CommitTiming::soon, on_saved));
    expect_recoverable(name + " is done");
    audits_.insert(Duration(number));
    ASSERT_TRUE(daemon.db_.save(audit_of(number), CommitTiming::soon,
                                [this, number](const Result<void>& done) {
                                  if (!done) lost_.insert(audits_.extract(Duration(number)));
                                }));
    expect_recoverable(name + " is audited");
  }
  // The batch is committed.
  void commit() {
    daemon_->loop_.advance(control::ControlStorage::kMaxCommitDelay);
    expect_recoverable("a batch is about to be committed");
    daemon_->worker_.run_all();
    expect_recoverable("a batch is committed");
  }

  ScratchDirectory state_;
  ScratchDirectory runtime_{"/dev/shm"};
  CapturedLog log_;
  std::unique_ptr<DaemonStorage> daemon_ =
      std::make_unique<DaemonStorage>(state_.path(), runtime_.path());
  std::optional<ManagedSetting> promised_;                   // must be there
  std::optional<std::optional<ManagedSetting>> unanswered_;  // may be there
  std::multiset<Duration> audits_;
  std::multiset<Duration> lost_;  // reported as such; the journal may have them still
  int recorded_ = 0;
};

TEST_F(ControlCrash, EveryStepOfAChangeIsRecovered) {
  for (int number = 1; number <= 4; ++number) {
    change(number);
    if (number % 2 == 0) commit();
  }
  EXPECT_EQ(recorded_, 4);
  const auto on_saved = [](const Result<void>&) {};
  ControlTransaction removed;
  removed.removed = *promised_;
  ASSERT_TRUE(daemon_->db_.record(removed, on_saved));
  promised_.reset();
  expect_recoverable("the setting is restored");
  commit();
}

TEST_F(ControlCrash, ChangesBeyondTheJournalWaitForStateDb) {
  const auto on_saved = [](const Result<void>&) {};
  // Nothing is committed while the worker does not run: both banks become full.
  for (int number = 1000; number < 1400; ++number) {
    audits_.insert(Duration(number));
    ASSERT_TRUE(daemon_->db_.save(audit_of(number), CommitTiming::soon, on_saved));
  }
  EXPECT_GT(daemon_->worker_.waiting(), 0U);
  const int before = recorded_;
  unanswered_ = limit_of("GPU-0", 1);
  EXPECT_FALSE(daemon_->db_.record(put_of(**unanswered_), on_saved));
  bool saved = false;
  ASSERT_TRUE(daemon_->db_.save(put_of(**unanswered_), CommitTiming::now,
                                [&](const Result<void>& done) { saved = done.ok(); }));
  daemon_->worker_.run_all();
  EXPECT_TRUE(saved);
  promised_ = *unanswered_;
  unanswered_.reset();
  expect_recoverable("all of it is committed");
  change(1);
  EXPECT_EQ(recorded_, before + 1);
}

TEST_F(ControlCrash, PromisedSettingsOutliveFailingDisk) {
  change(1);
  commit();
  change(2);
  daemon_->run_sql(
      "CREATE TRIGGER broken BEFORE INSERT ON control_holdings BEGIN SELECT RAISE(ABORT, 'full'); "
      "END");
  commit();  // fails
  EXPECT_TRUE(daemon_->store_.is_failing());
  change(3);  // refused, because it cannot be recorded
  EXPECT_EQ(promised_->written, power_limit(300'002));
  expect_recoverable("a change is refused");
  daemon_->run_sql("DROP TRIGGER broken");
  expect_recoverable("the disk works again");
  // A batch without that setting brings it along.
  audits_.insert(Duration(99));
  ASSERT_TRUE(daemon_->db_.save(audit_of(99), CommitTiming::soon, [](const Result<void>&) {}));
  commit();
  change(4);
  EXPECT_EQ(recorded_, 3);
}

TEST_F(ControlCrash, RemovedJournalFallsBackToStateDb) {
  change(1);
  std::filesystem::remove_all(runtime_.path());
  const auto on_saved = [](const Result<void>&) {};
  for (int number = 1000; number < 1400; ++number) {
    ASSERT_TRUE(daemon_->db_.save(audit_of(number), CommitTiming::soon, on_saved));
  }
  EXPECT_FALSE(daemon_->db_.record(put_of(limit_of("GPU-0", 1)), on_saved));
  daemon_->worker_.run_all();
  daemon_->loop_.advance(control::ControlStorage::kMaxCommitDelay);
  EXPECT_EQ(daemon_->audits().size(), 401U);
}

TEST_F(ControlCrash, CleanShutdownCommitsAllAndRemovesJournal) {
  change(1);
  bool closed = false;
  daemon_->db_.close(seconds(1), [&] { closed = true; });
  EXPECT_FALSE(closed);
  daemon_->worker_.run_all();
  EXPECT_TRUE(closed);
  EXPECT_TRUE(std::filesystem::is_empty(runtime_.path()));
  expect_recoverable("the daemon has ended");
}

TEST_F(ControlCrash, HungDiskDelaysShutdownUpToTimeout) {
  change(1);
  bool closed = false;
  daemon_->db_.close(seconds(1), [&] { closed = true; });
  daemon_->loop_.advance(seconds(1));
  EXPECT_TRUE(closed);
  expect_recoverable("the daemon has ended");
}

}  // namespace
}  // namespace gpuyard::store
