#include "core/processes/process_spans.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "gpu/device/record_archive_for_tests.h"

namespace gpuyard::processes {
namespace {

using std::chrono::seconds;
using ::testing::SizeIs;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
const WallTime kBegin{std::chrono::milliseconds(1'700'000'000'000)};

class FakeProcessDirectory final : public ProcessDirectory {
 public:
  Result<const ProcessMetadata*> find(std::uint32_t pid) const override {
    const auto known = facts.find(pid);
    if (known == facts.end()) return Error{Errc::unavailable, "not looked up yet"};
    return &known->second;
  }
  std::uint64_t revision() const override { return 0; }

  std::map<std::uint32_t, ProcessMetadata> facts;
};

class ProcessRecorderTest : public ::testing::Test {
 protected:
  void set_facts(std::uint32_t pid, seconds started, const std::string& command = "python3") {
    ProcessMetadata facts;
    facts.pid = pid;
    facts.started = TimePoint(started);
    facts.started_at = kBegin + started;
    facts.uid = 1000;
    facts.command = command;
    facts.user = "anna";
    book_.facts[pid] = std::move(facts);
  }
  // Makes a new list, five seconds after the one before, and takes it.
  void list(std::vector<GpuProcess> processes) {
    now_ += seconds(5);
    listed_ = now_;
    processes_ = std::move(processes);
    publish_snapshot();
  }
  // Repeats the newest list in another snapshot.
  void publish_snapshot() {
    Snapshot snapshot;
    snapshot.taken = now_;
    snapshot.wall = kBegin + std::chrono::duration_cast<seconds>(now_.time_since_epoch());
    DeviceState& gpu = snapshot.devices.emplace_back();
    gpu.info.id = "GPU-1";
    gpu.sample.set(ProcessList{listed_, processes_});
    stays_.on_snapshot(snapshot, book_, [this](const DeviceId&) { return lease_; });
    worker_.run_all();
  }
  static GpuProcess process(std::uint32_t pid, std::int64_t gibibytes = 1) {
    return {pid, ProcessKind::compute, gibibytes * kGibibyte, {}};
  }
  std::vector<ProcessSpan> ask(WallTime from, WallTime until, std::size_t most = 100) {
    auto got =
        merge_open_records<ProcessSpan>({from, until, {}, most}, *archive_, stays_.open_spans());
    EXPECT_TRUE(got);
    return got ? *std::move(got) : std::vector<ProcessSpan>{};
  }
  std::vector<ProcessSpan> all() { return ask(kBegin, kBegin + std::chrono::hours(24)); }

  FakeProcessDirectory book_;
  ManualWorker worker_;
  std::shared_ptr<FakeRecordArchive<ProcessSpan>> archive_ =
      std::make_shared<FakeRecordArchive<ProcessSpan>>();
  ProcessRecorder stays_{worker_, archive_, "boot"};
  TimePoint now_{seconds(1000)};
  TimePoint listed_;
  std::vector<GpuProcess> processes_;
  std::string lease_ = "L-1";
};

TEST_F(ProcessRecorderTest, SpanLastsFromFirstListToLast) {
  set_facts(7, seconds(990));
  list({process(7, 2)});
  list({process(7, 9)});
  lease_ = "L-2";
  list({process(7, 3)});
  EXPECT_FALSE(all().at(0).over);
  list({});
  const auto stays = all();
  ASSERT_THAT(stays, SizeIs(1));
  const ProcessSpan& stay = stays[0];
  EXPECT_TRUE(stay.over);
  EXPECT_EQ(stay.first_seen, kBegin + seconds(1005));
  EXPECT_EQ(stay.last_seen, kBegin + seconds(1015));
  EXPECT_EQ(stay.peak_memory_bytes, 9 * kGibibyte);
  EXPECT_EQ(stay.user, "anna");
  EXPECT_EQ(stay.command, "python3");
  EXPECT_EQ(stay.lease, "L-1") << "the one at its first sight";
  EXPECT_EQ(stay.started, kBegin + seconds(990));
  EXPECT_EQ(archive_->kept, stays);
}

TEST_F(ProcessRecorderTest, StartIsSavedImmediatelyAndPeakLater) {
  set_facts(7, seconds(990));
  list({process(7, 2)});
  EXPECT_EQ(archive_->kept.at(0).peak_memory_bytes, 2 * kGibibyte);
  for (int i = 0; i < 61; ++i) list({process(7, 5)});
  EXPECT_EQ(archive_->kept.at(0).peak_memory_bytes, 5 * kGibibyte);
  EXPECT_EQ(archive_->puts, 2) << "once at its start, once after five minutes";
}

TEST_F(ProcessRecorderTest, LateFactsAreSavedUnderProcessStart) {
  list({process(7)});
  EXPECT_EQ(archive_->puts, 0);
  set_facts(7, seconds(990));
  publish_snapshot();
  EXPECT_EQ(archive_->kept.at(0).started_boot_ms, 990'000);
  EXPECT_EQ(archive_->kept.at(0).first_seen, kBegin + seconds(1005));
}

TEST_F(ProcessRecorderTest, ShortUnidentifiedProcessesAreSavedSeparately) {
  list({process(7)});
  list({});
  list({process(7)});
  list({});
  EXPECT_THAT(archive_->kept, SizeIs(2));
  EXPECT_TRUE(archive_->kept[0].command.empty());
  EXPECT_FALSE(archive_->kept[0].started);
}

TEST_F(ProcessRecorderTest, ReusedPidStartsNewSpan) {
  set_facts(7, seconds(990));
  list({process(7, 8)});
  set_facts(7, seconds(1006), "bash");
  list({process(7, 1)});
  const auto stays = all();
  ASSERT_THAT(stays, SizeIs(2));
  EXPECT_EQ(stays[0].command, "bash");
  EXPECT_EQ(stays[0].peak_memory_bytes, kGibibyte);
  EXPECT_TRUE(stays[1].over);
}

TEST_F(ProcessRecorderTest, FailedSaveIsRetried) {
  set_facts(7, seconds(990));
  archive_->broken = Error{Errc::unavailable, "disk full"};
  list({process(7)});
  list({});
  EXPECT_THAT(archive_->kept, SizeIs(0));
  archive_->broken.reset();
  list({});
  ASSERT_THAT(archive_->kept, SizeIs(1));
  EXPECT_TRUE(archive_->kept[0].over);
}

TEST_F(ProcessRecorderTest, FullWorkerLosesNoSpan) {
  set_facts(7, seconds(990));
  worker_.full = true;
  list({process(7)});
  worker_.full = false;
  publish_snapshot();
  EXPECT_THAT(archive_->kept, SizeIs(1));
}

TEST_F(ProcessRecorderTest, QueryReturnsOverlappingSpansNewestFirst) {
  set_facts(7, seconds(990));
  set_facts(8, seconds(1010));
  list({process(7)});
  list({process(7)});
  list({process(8)});
  EXPECT_THAT(ask(kBegin + seconds(1011), kBegin + seconds(1012)), SizeIs(0));
  EXPECT_EQ(ask(kBegin + seconds(1006), kBegin + seconds(1012)).at(0).pid, 7U);
  const auto both = all();
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(both[0].pid, 8U);
  EXPECT_THAT(ask(kBegin, kBegin + seconds(2000), 1), SizeIs(2)) << "one more than asked for";
}

TEST_F(ProcessRecorderTest, SpanFromKilledDaemonIsOver) {
  archive_->kept.push_back(
      {.gpu = "GPU-1", .pid = 3, .started_boot_ms = 5, .first_seen = kBegin, .last_seen = kBegin});
  EXPECT_TRUE(all().at(0).over);
}

TEST_F(ProcessRecorderTest, FlushSavesOpenSpans) {
  set_facts(7, seconds(990));
  list({process(7, 1)});
  list({process(7, 6)});
  stays_.flush();
  worker_.run_all();
  EXPECT_EQ(archive_->kept.at(0).peak_memory_bytes, 6 * kGibibyte);
}

}  // namespace
}  // namespace gpuyard::processes
