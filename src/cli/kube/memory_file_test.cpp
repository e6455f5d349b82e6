#include "cli/kube/memory_file.h"

#include <gtest/gtest.h>

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
  return memory;
}

TEST(KubeMemory, AllOfItSurvives) {
  const std::string text = memory_text(full_memory(), "boot");
  const auto read = parse_memory(text, "boot");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->flaps, full_memory().flaps);
  EXPECT_EQ(read->standing_rules, full_memory().standing_rules);
  EXPECT_EQ(read->allocatable_since, full_memory().allocatable_since);
  EXPECT_EQ(memory_text(*read, "boot"), text);
}

// Its moments are of another clock.
TEST(KubeMemory, MemoryOfAnotherBootIsNotUsed) {
  const auto read = parse_memory(memory_text(full_memory(), "boot"), "another");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::not_found);
}

TEST(KubeMemory, MalformedMemoryIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"boot_id":"b","memory":{}})"}) {
    EXPECT_FALSE(parse_memory(text, "b")) << text;
  }
  std::string text = memory_text(full_memory(), "b");
  text.replace(text.find("5000000000"), 10, R"("a moment")");
  EXPECT_FALSE(parse_memory(text, "b"));
}

TEST(KubeMemoryFile, MemoryIsLoadedAfterRestart) {
  const ScratchDirectory directory;
  const std::string path = directory.path() + "/memory.json";
  MemoryFile first(path);
  EXPECT_EQ(first.load().node_uid, "");
  ASSERT_TRUE(first.save(full_memory()));
  EXPECT_EQ(MemoryFile(path).load().node_uid, "u1");
}

TEST(KubeMemoryFile, UnchangedMemoryIsNotWrittenAgain) {
  const ScratchDirectory directory;
  const std::string path = directory.path() + "/memory.json";
  MemoryFile file(path);
  ASSERT_TRUE(file.save(full_memory()));
  ASSERT_TRUE(replace_file(path, "another text", 0600));
  ASSERT_TRUE(file.save(full_memory()));
  EXPECT_EQ(*read_file(path, 100), "another text");
}

TEST(KubeMemoryFile, EmptyPathDisablesMemory) {
  MemoryFile file("");
  EXPECT_TRUE(file.save(full_memory()));
  EXPECT_EQ(file.load().node_uid, "");
}

TEST(KubeMemoryFile, DamagedFileIsAnEmptyMemory) {
  const ScratchDirectory directory;
  const std::string path = directory.path() + "/memory.json";
  ASSERT_TRUE(replace_file(path, R"({"boot_id")", 0600));
  MemoryFile file(path);
  EXPECT_EQ(file.load().node_uid, "");
  ASSERT_TRUE(file.save(full_memory()));
  EXPECT_EQ(MemoryFile(path).load().node_uid, "u1");
}

}  // namespace
}  // namespace gpuyard::cli::kube
