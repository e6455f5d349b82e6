#include "cli/lease/queue_table.h"

#include <gtest/gtest.h>

#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

TEST(QueueText, SaysThatNobodyWaits) {
  EXPECT_EQ(queue_text({}, kNow, {}), "Nobody waits.\n");
}

TEST(QueueText, HasPlaceWishReasonAndEstimate) {
  protocol::Queue queue;
  protocol::Lease lease;
  lease.id = "a1";
  lease.uid = 1000;
  lease.wanted_gpus = 2;
  lease.note = "train";
  lease.place = {1, "busy", "all are in use", 720.0};
  queue.waiting = {lease};
  queue.pending_claimers = 3;
  const std::string text = queue_text(queue, kNow, {});
  EXPECT_NE(text.find("    1  1000  2 GPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("12 min  all are in use  train  a1\n2 more wait.\n"), std::string::npos)
      << text;
}

TEST(QueueText, ASquatterHasTheCommandThatResolvesIt) {
  protocol::Queue queue;
  queue.squatters = {{4711, 2, "GPU-2", 1000, "alice", "python", std::int64_t{5} << 30, 720.0,
                      "gpuyard lease adopt --pid 4711"}};
  EXPECT_EQ(queue_text(queue, kNow, {}),
            "Nobody waits.\n"
            "GPU 2 is used outside any lease by process 4711 (python) of alice, 5.0 GiB, for 12 "
            "min:\n"
            "    gpuyard lease adopt --pid 4711\n");
}

TEST(QueueText, WhatAPersonShouldLookAtComesLast) {
  protocol::Queue queue;
  queue.notes = {"lease night has been draining since yesterday"};
  EXPECT_EQ(queue_text(queue, {}, {}),
            "Nobody waits.\nlease night has been draining since yesterday\n");
}

TEST(QueueText, AGpuThatIsNotHandedOutHasItsReason) {
  EXPECT_EQ(withheld_text({{1, "GPU-1", "cordoned", "cordoned by uid 0: new fan", "uid 0", {}},
                           {2, "GPU-2", "lost", "", {}, {}}},
                          kNow),
            "GPU 1 is not handed out: cordoned by uid 0: new fan\n"
            "GPU 2 is not handed out: lost\n");
}

}  // namespace
}  // namespace gpuyard::cli
