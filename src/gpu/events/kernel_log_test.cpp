#include "gpu/events/kernel_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::events {
namespace {

using std::chrono::seconds;

constexpr TimePoint kRead{std::chrono::hours(1)};

// The test plays the kernel at the other end of a pipe.
class KernelLogTest : public ::testing::Test {
 protected:
  KernelLogTest() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    fd_ = ends[0];
    kernel_.reset(ends[1]);
    log_.emplace(
        loop_, UniqueFd(ends[0]),
        KernelLog::Listener{[this](const KernelXid& xid, TimePoint) {
                              xids_.push_back(xid.pci_address + " " + std::to_string(xid.xid));
                            },
                            [this](const std::string& what) { lost_.push_back(what); }});
  }
  void write(const std::string& bytes) {
    ASSERT_EQ(::write(kernel_.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    loop_.make_readable(fd_);
  }

  ManualLoop loop_;
  int fd_ = -1;
  UniqueFd kernel_;
  std::vector<std::string> xids_;
  std::vector<std::string> lost_;
  std::optional<KernelLog> log_;
};

TEST_F(KernelLogTest, OnlyXidLinesAreReported) {
  write(
      "6,1,1000,-;usb 1-1: new device\n SUBSYSTEM=usb\n DEVICE=c189:1\n"
      "4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
      "4,3,3000,-;NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n");
  EXPECT_EQ(xids_, std::vector<std::string>{"0000:3b:00 79"});
}

TEST_F(KernelLogTest, ALineMayComeInPieces) {
  const std::string line = "4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 31, x\n";
  for (const char c : line) write(std::string(1, c));
  EXPECT_EQ(xids_, std::vector<std::string>{"0000:3b:00 31"});
}

TEST_F(KernelLogTest, EndlessLineIsReportedAsTooLong) {
  for (int i = 0; i < 30; ++i) write(std::string(1000, 'x'));
  write("\n4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 31, x\n");
  EXPECT_EQ(xids_, std::vector<std::string>{"0000:3b:00 31"});
  EXPECT_EQ(lost_, std::vector<std::string>{"a record of the kernel's log was too long to read"});
}

TEST_F(KernelLogTest, MissingWriterReportsNoXid) {
  kernel_.reset();
  loop_.make_readable(fd_);
  EXPECT_TRUE(xids_.empty());
}

// The device's answers, one errno after the other; 0 is a record.
std::vector<int> script;

ssize_t scripted_read(int, void* out, std::size_t) {
  if (script.empty()) return errno = EAGAIN, -1;
  const int code = script.front();
  script.erase(script.begin());
  if (code != 0) return errno = code, -1;
  const std::string record = "4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 31, x\n";
  record.copy(static_cast<char*>(out), record.size());
  return static_cast<ssize_t>(record.size());
}

TEST(KernelLog, OverwrittenRecordsAreReportedAndReadingContinues) {
  ManualLoop loop;
  int xids = 0;
  std::vector<std::string> lost;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  KernelLog log(loop, UniqueFd(fd),
                {[&](const KernelXid&, TimePoint) { ++xids; },
                 [&](const std::string& what) { lost.push_back(what); }},
                scripted_read);
  script = {0, EPIPE, 0, EINTR, EINVAL, 0};
  loop.make_readable(fd);
  EXPECT_EQ(xids, 3);
  EXPECT_EQ(lost.size(), 2U);
}

TEST(KernelLog, EndlessInputYieldsAfterOneBatch) {
  ManualLoop loop;
  int xids = 0;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  KernelLog log(loop, UniqueFd(fd),
                {[&](const KernelXid&, TimePoint) { ++xids; }, [](const std::string&) {}},
                scripted_read);
  script.assign(1000, 0);
  loop.make_readable(fd);
  EXPECT_EQ(xids, KernelLog::kMaxReadsPerTurn);
  script.clear();
}

TEST(KernelLog, ImplausibleTimestampFallsBackToReadTime) {
  EXPECT_EQ(written_at(seconds(100), seconds(103), kRead), kRead - seconds(3));
  EXPECT_EQ(written_at(seconds(100), seconds(100) + KernelLog::kMaxRecordAge + seconds(1), kRead),
            kRead);
  EXPECT_EQ(written_at(seconds(100), seconds(99), kRead), kRead);
}

class KernelLogFile : public ::testing::Test {
 protected:
  const ScratchDirectory directory_;
};

TEST_F(KernelLogFile, FifoWithoutWriterIsNotAtEnd) {
  const std::string path = directory_.in("log");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto fd = open_kernel_log(path);
  ASSERT_TRUE(fd.ok());
  char byte = 0;
  EXPECT_EQ(::read(fd->get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(KernelLogFile, MissingFileOrDirectoryIsError) {
  const auto missing = open_kernel_log(directory_.in("log"));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_EQ(open_kernel_log(directory_.path()).error().message,
            directory_.path() + " is neither a device nor a FIFO");
}

}  // namespace

namespace {

TEST(KernelXid, EveryFormThatDriversHaveUsedIsUnderstood) {
  const struct {
    const char* line;
    KernelXid expected;
  } cases[] = {
      {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
       "bus.",
       {"0000:3b:00", 79, {}, "GPU has fallen off the bus."}},
      {"NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008",
       {"0000:cb:00", 109, 1797828, "Ch 00000008"}},
      {"NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.",
       {"0000:01:00", 79, 1122, "GPU has fallen off the bus."}},
      {"NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.",
       {"0000:23:00", 79, {}, "GPU has fallen off the bus."}},
      {"NVRM: Xid (0000:03:00): 14, Channel 00000001", {"0000:03:00", 14, {}, "Channel 00000001"}},
      {"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: "
       "No, D-RST: No",
       {"0000:01:00", 94, 7194, "Contained: CE User Channel (0x9). RST: No, D-RST: No"}},
      {"NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception",
       {"0000:3b:00", 13, 9, "Graphics Exception"}},
      {"NVRM: Xid (PCI:10000:01:00.0): 48, pid='12', name=x", {"10000:01:00.0", 48, 12, ""}},
      {"NVRM: Xid (PCI:0002:00:00): 62", {"0002:00:00", 62, {}, ""}},
  };
  for (const auto& one : cases) {
    const auto found = parse_xid(one.line);
    ASSERT_TRUE(found) << one.line;
    EXPECT_EQ(*found, one.expected) << one.line << "\n" << found->text;
  }
}

TEST(KernelXid, OtherLinesAreNone) {
  for (const char* line :
       {"", "NVRM: GPU at PCI:0000:3b:00: GPU-1234", "usb 1-1: NVRM: Xid (PCI:0000:3b:00): 79, x",
        "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:): 79, x",
        "NVRM: Xid (PCI:0000:3b:00): seventy-nine", "NVRM: Xid (PCI:0000:3b:00", "NVRM: Xid",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999, x"}) {
    EXPECT_FALSE(parse_xid(line)) << line;
  }
}

TEST(KernelXid, ARecordHasAHeadAndAMessage) {
  const auto record = parse_record("4,1234,567890123,-;NVRM: a;b");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->stamp, std::chrono::microseconds(567890123));
  EXPECT_EQ(record->message, "NVRM: a;b");
  EXPECT_EQ(parse_record("6,1,2,c,caller=T1;x")->message, "x");
}

// The kernel marks records that others write with another facility than its own.
TEST(KernelXid, ForeignRecordIsIgnored) {
  for (const char* line : {"12,1234,567890123,-;NVRM: Xid (PCI:0000:3b:00): 79, x", "8,1,2,-;x"}) {
    EXPECT_FALSE(parse_record(line)) << line;
  }
  EXPECT_TRUE(parse_record("7,1,2,-;x"));
}

TEST(KernelXid, MalformedRecordIsRejected) {
  for (const char* line : {"", ";", " SUBSYSTEM=pci", "4,1234;x", "4,1234,5,-", "a,1,2,-;x",
                           "4,1,-7,-;x", "4,1,9223372036854775807,-;x"}) {
    EXPECT_FALSE(parse_record(line)) << line;
  }
}

}  // namespace
}  // namespace gpuyard::events
