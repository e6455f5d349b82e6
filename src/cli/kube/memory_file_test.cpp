#include "cli/kube/memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/files.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

Memory full_memory() {
  const TimePoint moment{std::chrono::seconds(5)};
  Memory memory;
  memory.flaps["GPU-a"] = {{moment, moment}, true, true, moment, "xid-fatal", "reset it"};
  memory.flaps["GPU-b"] = {};
  memory.node_uid = "u1";
  memory.standing_rules["r1"] = {"GPU-a", "xid-fatal"};
  memory.deleted_rules["r2"] = {"GPU-b", "gpu-lost"};
  memory.taint_stands = true;
  memory.taint_alerts["GPU-a"] = "xid-fatal";
  memory.deleted_taint_alerts["GPU-b"] = "gpu-lost";
  memory.allocatable_since["GPU-a"] = moment;
  memory.plugin_seen = true;
  memory.reported.node_uid = "u1";
  memory.reported.driver_down = true;
  memory.reported.gpus["GPU-a"] = ReportedGpu{"xid-fatal", true};
  memory.reported.gpus["GPU-b"] = ReportedGpu{std::nullopt, true};
  memory.plugin_restarts = {moment};
  return memory;
}

TEST(KubeMemory, AllOfItSurvives) {
  const std::string text = memory_text(full_memory(), "boot");
  const auto read = parse_memory(text, "boot");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->flaps, full_memory().flaps);
  EXPECT_EQ(read->standing_rules, full_memory().standing_rules);
  EXPECT_EQ(read->allocatable_since, full_memory().allocatable_since);
  EXPECT_EQ(read->reported, full_memory().reported);
  EXPECT_EQ(read->plugin_restarts, full_memory().plugin_restarts);
  EXPECT_EQ(memory_text(*read, "boot"), text);
}

// Its moments are of another clock.
TEST(KubeMemory, MemoryOfAnotherBootIsNotUsed) {
  const auto read = parse_memory(memory_text(full_memory(), "boot"), "another");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::not_found);
}

TEST(KubeMemory, MalformedMemoryIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"boot_id":"b"})", R"({"boot_id":"b","memory":[]})",
                           R"({"memory":{}})"}) {
    EXPECT_FALSE(parse_memory(text, "b")) << text;
  }
  std::string text = memory_text(full_memory(), "b");
  text.replace(text.find("5000000000"), 10, R"("a moment")");
  EXPECT_FALSE(parse_memory(text, "b"));
}

TEST(KubeMemory, MemoryOfAnOlderVersionIsUsed) {
  std::string text = memory_text(full_memory(), "b");
  for (const char* member : {R"("reported":)", R"("plugin_restarts":)"}) {
    text.replace(text.find(member) + 1, 1, "x");  // a member that nothing reads
  }
  const auto memory = parse_memory(text, "b");
  ASSERT_TRUE(memory) << memory.error().text();
  EXPECT_EQ(memory->deleted_rules, full_memory().deleted_rules);
  EXPECT_EQ(memory->reported, ReportedEvents{});
  EXPECT_TRUE(memory->plugin_restarts.empty());
}

class KubeMemoryFile : public testing::Test {
 protected:
  const ScratchDirectory directory_;
  const std::string path_ = directory_.path() + "/memory.json";
  CapturedLog log_;
};

TEST_F(KubeMemoryFile, MemoryIsLoadedAfterRestart) {
  MemoryFile first(path_);
  EXPECT_EQ(first.memory().node_uid, "");
  first.memory() = full_memory();
  first.save();
  EXPECT_EQ(MemoryFile(path_).memory().node_uid, "u1");
}

TEST_F(KubeMemoryFile, UnchangedMemoryIsNotWrittenAgain) {
  MemoryFile file(path_);
  file.memory() = full_memory();
  file.save();
  ASSERT_TRUE(replace_file(path_, "another text", 0600));
  file.save();
  EXPECT_EQ(*read_file(path_, 100), "another text");
}

TEST_F(KubeMemoryFile, EmptyPathDisablesMemory) {
  MemoryFile file("");
  file.memory() = full_memory();
  file.save();
  EXPECT_EQ(MemoryFile("").memory().node_uid, "");
  EXPECT_THAT(CapturedLog::lines(), testing::IsEmpty());
}

TEST_F(KubeMemoryFile, DamagedFileIsAnEmptyMemory) {
  ASSERT_TRUE(replace_file(path_, R"({"boot_id")", 0600));
  MemoryFile file(path_);
  EXPECT_EQ(file.memory().node_uid, "");
  file.memory() = full_memory();
  file.save();
  EXPECT_EQ(MemoryFile(path_).memory().node_uid, "u1");
}

TEST_F(KubeMemoryFile, FileThatCannotBeWrittenIsLoggedOnce) {
  MemoryFile file(directory_.path() + "/missing/memory.json");
  file.save();
  file.memory() = full_memory();
  file.save();
  EXPECT_THAT(CapturedLog::lines(), testing::SizeIs(1));
}

}  // namespace
}  // namespace gpuyard::cli::kube
