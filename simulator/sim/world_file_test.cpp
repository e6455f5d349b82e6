#include "sim/world_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "sim/world_for_tests.h"
#include "sim/world_reader.h"
#include "sim/world_writer.h"

namespace gpuyard::sim {
namespace {

class WorldFileTest : public ::testing::Test {
 protected:
  WorldFileTest()
      : world_(make_world(*find_model("h100"), 4, {.kind = WorkloadKind::mixed})),
        writer_(*WorldWriter::create(directory_.path(), world_)) {}

  std::string path() const { return directory_.path() + "/state"; }

  // Overwrites a part of the file, as a broken or hostile writer would.
  template <class T>
  void overwrite(std::size_t offset, const T& value) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  }

  Error refusal() const {
    const auto opened = WorldReader::open(directory_.path());
    return opened ? Error{Errc::internal, "it was opened"} : opened.error();
  }

  ScratchDirectory directory_;
  World world_;
  WorldWriter writer_;
};

TEST_F(WorldFileTest, ReaderSeesPublishedWorld) {
  const auto reader = WorldReader::open(directory_.path());
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->gpu_count(), 4U);
  EXPECT_EQ(reader->server_pid(), ::getpid());
  EXPECT_STREQ(reader->identity(3).uuid, world_.gpus[3].identity.uuid);
  EXPECT_EQ(reader->model(3).name, "NVIDIA H100 80GB HBM3");

  world_.gpus[2].settings.power_limit_mw = 345'678;
  writer_.publish(world_);
  EXPECT_EQ(reader->generation(), 2U);
  EXPECT_EQ(reader->record(2)->power_limit_mw, 345'678U);
}

TEST_F(WorldFileTest, FileIsWorldReadableAndOwnerWritable) {
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0644U);
  EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
}

TEST_F(WorldFileTest, NoFileIsNotFound) {
  std::filesystem::remove(path());
  EXPECT_EQ(refusal().code, Errc::not_found);
}

TEST_F(WorldFileTest, ATruncatedFileIsRefused) {
  for (const std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{100}, std::uintmax_t{sizeof(WorldHeader)},
        std::uintmax_t{sizeof(WorldFile) - 1}}) {
    const std::string copy = directory_.path() + "/copy";
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(path(), copy + "/state",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(copy + "/state", size);
    const auto opened = WorldReader::open(copy);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid);
    EXPECT_NE(opened.error().message.find("truncated"), std::string::npos);
  }
}

TEST_F(WorldFileTest, TruncatedFileIsDeadWorld) {
  const auto reader = WorldReader::open(directory_.path());
  ASSERT_TRUE(reader);
  const auto record = *reader->record(0);
  for (const std::uintmax_t length : {sizeof(WorldFile) - 1, std::size_t{4096}, std::size_t{0}}) {
    std::filesystem::resize_file(path(), length);
    EXPECT_FALSE(reader->is_alive());
    EXPECT_FALSE(reader->record(0));
    EXPECT_FALSE(reader->record_pair(0));
    EXPECT_FALSE(reader->processes(0, record));
    EXPECT_TRUE(reader->writes().empty());
    EXPECT_EQ(reader->event_count(), 0U);
    EXPECT_STREQ(reader->identity(3).uuid, world_.gpus[3].identity.uuid);
  }
}

TEST_F(WorldFileTest, AStrangersWorldIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal().code, Errc::denied);
}

TEST_F(WorldFileTest, AnotherMagicIsRefused) {
  overwrite(offsetof(WorldHeader, magic), 'X');
  EXPECT_EQ(refusal().code, Errc::invalid);
  EXPECT_NE(refusal().message.find("magic"), std::string::npos);
}

TEST_F(WorldFileTest, AnotherLayoutVersionIsRefusedAndNamesBoth) {
  overwrite(offsetof(WorldHeader, layout_version), std::uint32_t{99});
  EXPECT_EQ(refusal().code, Errc::invalid);
  EXPECT_NE(refusal().message.find("layout 99, this program reads 6"), std::string::npos);
}

TEST_F(WorldFileTest, AWorldOfAnotherBootIsUnavailable) {
  overwrite(offsetof(WorldHeader, boot_id), 'X');
  EXPECT_EQ(refusal().code, Errc::unavailable);
  EXPECT_NE(refusal().message.find("another boot"), std::string::npos);
}

TEST_F(WorldFileTest, ImpossibleFleetsAreRefused) {
  overwrite(offsetof(WorldHeader, gpu_count), std::uint32_t{65});
  EXPECT_EQ(refusal().code, Errc::invalid);
  overwrite(offsetof(WorldHeader, gpu_count), std::uint32_t{4});
  overwrite(offsetof(WorldFile, identities), 'X');
  EXPECT_EQ(refusal().code, Errc::invalid);
  EXPECT_NE(refusal().message.find("unknown GPU model"), std::string::npos);
}

TEST_F(WorldFileTest, FifoIsRefusedWithoutBlocking) {
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0644), 0);
  EXPECT_EQ(refusal().code, Errc::invalid);
}

TEST_F(WorldFileTest, UnpublishedWorldIsDeadAfterTwoSeconds) {
  const auto reader = WorldReader::open(directory_.path());
  ASSERT_TRUE(reader->is_alive());
  ASSERT_TRUE(reader->record(0));
  const std::uint64_t two_seconds_ago = boot_time_ns() - 2'000'000'000U;
  overwrite(offsetof(WorldFile, slots) + sizeof(WorldSlot), two_seconds_ago);  // generation 1
  EXPECT_FALSE(reader->is_alive());
  EXPECT_FALSE(reader->record(0));
}

TEST_F(WorldFileTest, ReplacedWriterLeavesNewFileInPlace) {
  EXPECT_TRUE(writer_.is_linked());
  {
    const auto replacing = WorldWriter::create(directory_.path(), world_);
    EXPECT_FALSE(writer_.is_linked());
    {
      const WorldWriter replaced = std::move(writer_);
    }
    EXPECT_TRUE(replacing->is_linked());
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// Every field is a function of the generation, so a mixture of two generations is detected.
World world_at(std::uint64_t n) {
  World world = make_world(*find_model("h100"), 64, {});
  for (Gpu& gpu : world.gpus) {
    gpu.counters.energy_uj = n * 1000;
    gpu.settings.power_limit_mw = static_cast<std::uint32_t>(n);
    gpu.demand.vram_bytes = n;
    for (CallFault& fault : gpu.fault.calls) fault.code = static_cast<std::int32_t>(n);
  }
  return world;
}

bool is_consistent(const GpuRecord& record) {
  const auto n = record.energy_mj;
  bool same = record.power_limit_mw == n && record.memory_used_bytes == n;
  for (const CallFault& fault : record.fault.calls) {
    same = same && static_cast<std::uint64_t>(fault.code) == n;
  }
  return same;
}

TEST(WorldFileStress, AReaderNeverSeesATornRecord) {
  const ScratchDirectory directory;
  std::vector<World> worlds;
  for (std::uint64_t n = 1; n <= 16; ++n) worlds.push_back(world_at(n));
  auto writer = *WorldWriter::create(directory.path(), worlds[0]);
  const auto reader = WorldReader::open(directory.path());
  ASSERT_TRUE(reader);

  std::atomic<bool> stop{false};
  std::thread writing([&] {
    for (std::size_t i = 0; !stop; ++i) writer.publish(worlds[i % worlds.size()]);
  });
  std::uint64_t read = 0;
  std::uint64_t torn = 0;
  const TimePoint end = BootClock::now() + std::chrono::milliseconds(500);
  while (BootClock::now() < end) {
    if (const auto record = reader->record(static_cast<std::uint32_t>(read % 64))) {
      ++read;
      if (!is_consistent(*record)) ++torn;
    }
  }
  stop = true;
  writing.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_GT(read, 100U);
  RecordProperty("records_read", static_cast<int>(read));
}

// The same for the process table, whose size changes too.
World processes_at(std::uint32_t n) {
  World world = make_world(*find_model("h100"), 2, {});
  for (Gpu& gpu : world.gpus) {
    gpu.processes = ProcessSet(std::vector<ProcessRecord>(
        n, {.pid = n, .memory_bytes = n, .start_time = n, .since_ns = n}));
  }
  return world;
}

TEST(WorldFileStress, AReaderNeverSeesATornProcessTable) {
  const ScratchDirectory directory;
  std::vector<World> worlds;
  for (std::uint32_t n = 1; n <= 16; ++n) worlds.push_back(processes_at(n * 16));
  auto writer = *WorldWriter::create(directory.path(), worlds[0]);
  const auto reader = WorldReader::open(directory.path());
  ASSERT_TRUE(reader);

  std::atomic<bool> stop{false};
  std::thread writing([&] {
    for (std::size_t i = 0; !stop; ++i) writer.publish_processes(worlds[i % worlds.size()]);
  });
  std::uint64_t read = 0;
  std::uint64_t torn = 0;
  const TimePoint end = BootClock::now() + std::chrono::milliseconds(500);
  while (BootClock::now() < end) {
    const auto list = reader->processes(1, GpuRecord{});
    if (!list) continue;
    ++read;
    for (const ProcessUse& process : *list) {
      const bool same = process.pid == list->size() && process.memory_bytes == process.pid &&
                        process.start_time == process.pid && process.since_ns == process.pid;
      if (!same) ++torn;
    }
  }
  stop = true;
  writing.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_GT(read, 100U);
}

TEST_F(WorldFileTest, HostileProcessRangeIsHarmless) {
  const auto reader = WorldReader::open(directory_.path());
  ASSERT_TRUE(reader);
  const GpuRecord record = *reader->record(0);
  const std::size_t range = offsetof(WorldFile, processes);
  overwrite(range, std::uint64_t{UINT64_MAX});
  EXPECT_TRUE(reader->processes(0, record)->empty());
  overwrite(range, std::uint64_t{kMaxProcesses - 2} << 32 | UINT32_MAX);
  EXPECT_EQ(reader->processes(0, record)->size(), 2U);
}

TEST_F(WorldFileTest, ALogWithAnImpossibleCountIsEmpty) {
  const auto reader = WorldReader::open(directory_.path());
  ASSERT_TRUE(reader);
  overwrite(offsetof(WorldFile, writes), std::uint64_t{UINT64_MAX});
  EXPECT_TRUE(reader->writes().empty());
  overwrite(offsetof(WorldFile, events), std::uint64_t{1} << 40);
  EXPECT_TRUE(reader->events_after(0).empty());
}

}  // namespace

// The owners from whom a world's own library is accepted.
namespace {

// No other user may be able to make a daemon of real GPUs say that they are simulated.
TEST(WorldDirectory, LibraryWritableByOthersOrLinkedIsUntrusted) {
  const ScratchDirectory world;
  const std::string own = world.write("libnvidia-ml.so.1", "a library", 0644);
  EXPECT_EQ(nvml_path_of(world.path()), own);
  ::chmod(world.path().c_str(), 0777);
  EXPECT_NE(nvml_path_of(world.path()), own) << "others may write its directory";
  ::chmod(world.path().c_str(), 0755);
  ::chmod(own.c_str(), 0664);
  EXPECT_NE(nvml_path_of(world.path()), own) << "others may write it";
  ::unlink(own.c_str());
  ASSERT_EQ(::symlink("/etc/passwd", own.c_str()), 0);
  EXPECT_NE(nvml_path_of(world.path()), own) << "a link leads anywhere";
}

}  // namespace
}  // namespace gpuyard::sim
