#include "io/store/state_db.h"

#include <gmock/gmock.h>
#include <linux/magic.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"

namespace gpuyard::store {
namespace {

class StateDbTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }
  static Result<void> commit(StateDb& state, StateDb::Work work) {
    const std::vector<StateDb::Work> works = {std::move(work)};
    return state.commit(works);
  }
  static Result<void> nothing(Database&) { return {}; }
  static StateDb::Work executes(const char* statements) {
    return [statements](Database& database) { return database.execute(statements); };
  }
  static StateDb::Work counts(int& count) {
    return [&count](Database& database) -> Result<void> {
      auto rows = database.prepare("SELECT count(*) FROM energy_accounts");
      if (!rows) return std::move(rows).error();
      if (const auto row = rows->step(); !row) return row.error();
      count = static_cast<int>(rows->integer(0));
      return {};
    };
  }
  static constexpr const char* kOneAccount =
      "INSERT INTO energy_accounts VALUES('GPU-0',0,'b','d',1,0,0,0,0,0,NULL,1,2,3,4)";
  std::size_t files(const std::string& beginning) const {
    std::size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_.path())) {
      count += file.path().filename().string().starts_with(beginning) ? 1 : 0;
    }
    return count;
  }

  ScratchDirectory directory_;
};

TEST_F(StateDbTest, AMissingOneIsMadeWithEveryTable) {
  StateDb state(path(), kStateMigrations);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  StateDb again(directory_.in("other.db"), kStateMigrations);
  int count = -1;
  ASSERT_TRUE(commit(again, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, CommittedDataSurvivesReopen) {
  int count = 0;
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
  }
  StateDb state(path(), kStateMigrations);
  ASSERT_TRUE(commit(state, counts(count)));
  EXPECT_EQ(count, 1);
}

TEST_F(StateDbTest, AnErrorUndoesTheWholeGroup) {
  StateDb state(path(), kStateMigrations);
  const std::vector<StateDb::Work> works = {
      executes(kOneAccount), [](Database&) -> Result<void> { return Error{Errc::internal, "no"}; }};
  EXPECT_EQ(state.commit(works).error().message, "no");
  int count = -1;
  ASSERT_TRUE(commit(state, counts(count)));
  EXPECT_EQ(count, 0);
}

TEST_F(StateDbTest, ReadDoesNotWaitForACommit) {
  StateDb state(path(), kStateMigrations);
  const std::function<Result<std::int64_t>(Database&)> counts = [](Database& database) {
    return database.query_number("SELECT count(*) FROM energy_accounts");
  };
  EXPECT_EQ(state.reader()->run_query(counts).error().code, Errc::unavailable)
      << "nothing is open yet";
  std::vector<std::int64_t> counted;
  const auto count = [&] {
    const auto rows = state.reader()->run_query(counts);
    ASSERT_TRUE(rows) << rows.error().message;
    counted.push_back(*rows);
  };
  ASSERT_TRUE(commit(state, [&](Database& database) {
    auto done = database.execute(kOneAccount);
    count();
    return done;
  }));
  count();
  EXPECT_EQ(counted, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(StateDbTest, ClosingRemovesWalOfReader) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
    const std::function<Result<std::int64_t>(Database&)> layout = &Database::schema_version;
    EXPECT_TRUE(state.reader()->run_query(layout));
  }
  EXPECT_EQ(files("state.db"), 1U);
}

TEST_F(StateDbTest, ANewerOneIsLeftAsItIs) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
    ASSERT_TRUE(commit(state, [](Database& database) {
      return database.set_schema_version(static_cast<std::int64_t>(kStateMigrations.size()) + 1);
    }));
  }
  StateDb state(path(), kStateMigrations);
  const auto done = commit(state, nothing);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::conflict);
  EXPECT_THAT(done.error().message, ::testing::HasSubstr("written by a newer version"));
  EXPECT_TRUE(state.corruption_notes().empty());
  EXPECT_EQ(files("state.db.corrupt"), 0U);
}

TEST_F(StateDbTest, ACorruptOneIsPutAsideAndAnotherBegins) {
  std::ofstream(path()) << std::string(8192, 'x');
  StateDb state(path(), kStateMigrations);
  ASSERT_TRUE(commit(state, executes(kOneAccount)));
  ASSERT_EQ(state.corruption_notes().size(), 1U);
  EXPECT_THAT(state.corruption_notes()[0], ::testing::HasSubstr("was corrupt"));
  EXPECT_GE(files("state.db.corrupt-"), 1U);
}

TEST_F(StateDbTest, TornPageIsDetectedOnOpen) {
  {
    StateDb state(path(), kStateMigrations);
    ASSERT_TRUE(commit(state, executes(kOneAccount)));
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(4096, '\x7f');
  }
  StateDb state(path(), kStateMigrations);
  EXPECT_TRUE(commit(state, nothing));
  EXPECT_EQ(state.corruption_notes().size(), 1U);
}

TEST_F(StateDbTest, ADiskDoesNotFillWithCorruptOnes) {
  StateDb state(path(), kStateMigrations);
  for (std::size_t i = 0; i < StateDb::kMaxCorruptFiles + 2; ++i) {
    std::filesystem::remove(path() + "-wal");
    std::ofstream(path()) << std::string(8192, 'x');
    static_cast<void>(commit(state, [](Database&) -> Result<void> {
                        return Error{Errc::internal, "again"};
                      }).ok());
    ::usleep(2000);  // the name has the time in it, to the millisecond
  }
  EXPECT_EQ(state.corruption_notes().size(), StateDb::kMaxCorruptFiles);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::invalid);
}

TEST_F(StateDbTest, APlaceThatCannotBeOpenedIsTriedAgain) {
  std::filesystem::create_directory(path());
  StateDb state(path(), kStateMigrations);
  EXPECT_EQ(commit(state, nothing).error().code, Errc::denied);
  std::filesystem::remove(path());
  EXPECT_TRUE(commit(state, nothing));
}

}  // namespace

namespace {

constexpr std::uint32_t kXfs = 0x58465342;
constexpr std::uint32_t kZfs = 0x2fc12fc1;

TEST(LocalDisk, NetworkFileSystemIsDetectedByMagic) {
  for (const std::uint32_t magic : std::initializer_list<std::uint32_t>{
           NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, 0xff534d42, 0xfe534d42, V9FS_MAGIC, CODA_SUPER_MAGIC,
           AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, OCFS2_SUPER_MAGIC, 0x0bd00bd0, 0x47504653}) {
    EXPECT_TRUE(network_file_system(magic, "")) << std::hex << magic;
  }
  EXPECT_EQ(network_file_system(NFS_SUPER_MAGIC, "nfs4"), "NFS");
}

TEST(LocalDisk, TheFileSystemsOfOneMachineAreLocal) {
  for (const std::uint32_t magic : std::initializer_list<std::uint32_t>{
           OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC, EXT4_SUPER_MAGIC, kXfs,
           BTRFS_SUPER_MAGIC, kZfs, F2FS_SUPER_MAGIC, MSDOS_SUPER_MAGIC}) {
    EXPECT_FALSE(network_file_system(magic, "")) << std::hex << magic;
  }
}

TEST(LocalDisk, FuseTypeDecidesWhetherDiskIsLocal) {
  EXPECT_EQ(network_file_system(FUSE_SUPER_MAGIC, "fuse.sshfs"), "sshfs");
  EXPECT_EQ(network_file_system(FUSE_SUPER_MAGIC, "fuse.glusterfs"), "glusterfs");
  for (const char* const type :
       {"", "fuse", "fuseblk", "fuse.fuse-overlayfs", "virtiofs", "sshfs"}) {
    EXPECT_FALSE(network_file_system(FUSE_SUPER_MAGIC, type)) << type;
  }
  EXPECT_FALSE(network_file_system(EXT4_SUPER_MAGIC, "fuse.sshfs"));
}

TEST(LocalDisk, TheMountOfADeviceIsFound) {
  constexpr std::string_view kMounts =
      "22 1 0:21 / /proc rw - proc proc rw\n"
      "36 35 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 36 0:52 / /home/me rw,nosuid shared:9 master:2 - fuse.sshfs me@there:/ rw,user_id=0\n"
      "41 36 0:5\n";
  EXPECT_EQ(mount_type(kMounts, 8, 1), "ext4");
  EXPECT_EQ(mount_type(kMounts, 0, 52), "fuse.sshfs");
  EXPECT_EQ(mount_type(kMounts, 0, 5), "");
  EXPECT_EQ(mount_type(kMounts, 36, 35), "");
  EXPECT_EQ(mount_type("", 8, 1), "");
  EXPECT_EQ(mount_type("no mount\n\n", 8, 1), "");
}

// A file system that cannot be determined counts as local.
TEST(LocalDisk, LocalOrMissingDirectoryIsAccepted) {
  const ScratchDirectory directory;
  EXPECT_TRUE(check_local(directory.path()));
  EXPECT_TRUE(check_local("/proc"));
  EXPECT_TRUE(check_local(directory.path() + "/none"));
}

}  // namespace

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.in("state.db"); }
  void run(int number) {
    ASSERT_TRUE(store_->run(
        Requester::daemon(),
        [this, number](Database&) -> Result<void> {
          worked_.push_back(number);
          return outcome_;
        },
        [this, number](const Result<void>& done) { (done ? kept_ : failed_).push_back(number); }));
  }

  bool enter(const Requester& requester) {
    return store_->run(
        requester, [](Database&) -> Result<void> { return {}; }, [](const Result<void>&) {});
  }
  void insert() {
    ASSERT_TRUE(store_->run(
        Requester::daemon(),
        [](Database& database) {
          return database.execute(
              "INSERT INTO energy_accounts SELECT 'GPU-' || (SELECT count(*) FROM "
              "energy_accounts),0,'b','d',1,0,0,0,0,0,NULL,1,2,3,4");
        },
        [](const Result<void>&) {}));
  }
  // Returns the number of accounts that a reader sees.
  int read() {
    std::optional<Result<int>> count;
    EXPECT_TRUE(store_->run_query<int>(
        [](Database& database) -> Result<int> {
          const auto rows = database.query_number("SELECT count(*) FROM energy_accounts");
          return rows ? Result<int>(static_cast<int>(*rows)) : rows.error();
        },
        [&](Result<int> answer) { count = std::move(answer); }));
    worker_.run_all();
    EXPECT_TRUE(count && *count) << (count ? count->error().message : "no answer");
    return count && *count ? **count : -1;
  }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  std::unique_ptr<StateStore> store_ =
      std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations);
  Result<void> outcome_;
  std::vector<int> worked_;
  std::vector<int> kept_;
  std::vector<int> failed_;
};

TEST_F(StateStoreTest, RequestsDuringCommitShareNextCommit) {
  run(1);
  run(2);
  run(3);
  EXPECT_EQ(worker_.waiting(), 1U) << "one commit at a time";
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2, 3));
  EXPECT_THAT(kept_, ElementsAre(1, 2, 3));
}

TEST_F(StateStoreTest, FailedCommitIsReportedUntilNextSuccess) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  ASSERT_EQ(store_->notes().size(), 1U);
  EXPECT_THAT(store_->notes()[0], HasSubstr("disk full; retrying"));
  outcome_ = {};
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
  EXPECT_THAT(store_->notes(), IsEmpty());
  EXPECT_THAT(log_.lines().back(), HasSubstr("INFO writing to "));
}

TEST_F(StateStoreTest, ContinuingFailureIsLoggedOnce) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  for (int i = 0; i < 5; ++i) {
    run(i);
    worker_.run_all();
  }
  EXPECT_EQ(log_.lines().size(), 1U);
}

TEST_F(StateStoreTest, FullQueueRefusesWork) {
  worker_.full = true;
  for (std::size_t i = 0; i < limits::kMaxStateTasks; ++i) run(0);
  EXPECT_FALSE(enter(Requester::daemon()));
}

TEST_F(StateStoreTest, UserAtQueueQuotaIsRefused) {
  worker_.full = true;
  for (std::size_t i = 0; i < limits::kStateTasksPerUser; ++i) EXPECT_TRUE(enter({"uid 1001"}));
  EXPECT_FALSE(store_->can_accept({"uid 1001"}));
  EXPECT_FALSE(enter({"uid 1001"}));
  EXPECT_TRUE(enter({"uid 1002"}));
  EXPECT_TRUE(enter({"uid 1001", true})) << "an administrator";
}

TEST_F(StateStoreTest, HalfOfTheQueueIsReservedForLeasesAndRoot) {
  worker_.full = true;
  std::size_t entered = 0;
  for (int user = 0; user < 10'000; ++user) entered += enter({fmt::format("uid {}", user)});
  EXPECT_EQ(entered, limits::kMaxStateTasks - limits::kReservedStateTasks);
  for (std::size_t i = 0; i < limits::kReservedStateTasks; ++i) run(0);
}

TEST_F(StateStoreTest, ShareIsFreeOnceItsWorkIsDone) {
  run(1);
  for (std::size_t i = 0; i < limits::kStateTasksPerUser; ++i) EXPECT_TRUE(enter({"uid 1001"}));
  EXPECT_FALSE(enter({"uid 1001"}));
  worker_.run_all();
  EXPECT_TRUE(enter({"uid 1001"}));
}

TEST_F(StateStoreTest, ReadSeesEarlierWrites) {
  insert();
  EXPECT_EQ(read(), 1);
  insert();
  insert();
  EXPECT_EQ(read(), 3);
}

TEST_F(StateStoreTest, EmptyWorkDoesNotEndAFailure) {
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  worker_.run_all();
  bool succeeded = false;
  ASSERT_TRUE(store_->run(Requester::daemon(), nullptr,
                          [&](const Result<void>& done) { succeeded = done.ok(); }));
  worker_.run_all();
  EXPECT_TRUE(succeeded);
  EXPECT_TRUE(store_->is_failing());
}

TEST_F(StateStoreTest, ReadsContinueAfterAFailedWrite) {
  insert();
  EXPECT_EQ(read(), 1);
  outcome_ = Error{Errc::unavailable, "disk full"};
  run(1);
  EXPECT_EQ(read(), 1);
  outcome_ = {};
  insert();
  EXPECT_EQ(read(), 2);
}

TEST_F(StateStoreTest, ReaderOpensTheFileThatReplacedACorruptOne) {
  insert();
  EXPECT_EQ(read(), 1);
  outcome_ = Error{Errc::unavailable, "no"};
  run(1);
  worker_.run_all();
  std::filesystem::remove(path() + "-wal");
  std::ofstream(path()) << std::string(8192, 'x');
  EXPECT_EQ(read(), 0);
  ASSERT_EQ(store_->notes().size(), 2U);
  EXPECT_THAT(store_->notes()[0], HasSubstr("was corrupt"));
}

TEST_F(StateStoreTest, FailedReadDoesNotPutASoundFileAside) {
  insert();
  std::optional<Result<int>> result;
  ASSERT_TRUE(
      store_->run_query<int>([](Database&) -> Result<int> { return Error{Errc::invalid, "torn"}; },
                             [&](Result<int> answer) { result = std::move(answer); }));
  worker_.run_all();
  ASSERT_TRUE(result && !*result);
  EXPECT_THAT(store_->notes(), IsEmpty());
  EXPECT_EQ(read(), 1);
}

TEST_F(StateStoreTest, NetworkFileSystemIsRefusedUntilLocal) {
  bool network = true;
  const auto place = [&](const std::string& directory) -> Result<void> {
    EXPECT_EQ(directory, directory_.path());
    return network ? Result<void>(Error{Errc::denied, "on a network file system (NFS)"})
                   : Result<void>();
  };
  store_ = std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations, place);
  run(1);
  worker_.run_all();
  EXPECT_THAT(failed_, ElementsAre(1));
  EXPECT_THAT(worked_, IsEmpty());
  EXPECT_THAT(store_->notes(), ElementsAre(HasSubstr("on a network file system (NFS)")));
  EXPECT_FALSE(std::filesystem::exists(path()));
  network = false;
  run(2);
  worker_.run_all();
  EXPECT_THAT(kept_, ElementsAre(2));
}

TEST_F(StateStoreTest, ShutdownRunsQueuedWorkWithoutCallbacks) {
  run(1);
  run(2);
  store_.reset();
  worker_.run_all();
  EXPECT_THAT(worked_, ElementsAre(1, 2));
  EXPECT_THAT(kept_, IsEmpty());
}

}  // namespace
}  // namespace gpuyard::store
