#include "events/intake.h"

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop.h"

namespace gpuyard::events {
namespace {

using std::chrono::seconds;

class IntakeTest : public ::testing::Test {
 protected:
  IntakeTest() {
    intake_.on_fleet({{},
                      {{"GPU-a", 0, "GPU-a", "0000:3b:00.0", "H100", {}},
                       {"GPU-b", 1, "GPU-b", "0000:86:00.0", "H100", {}}}});
  }
  void driver_tells(const DeviceId& device, std::uint32_t xid) {
    intake_.on_driver_event(
        {device, EventKind::xid, EventSource::driver, loop_.now(), xid, {}, ""});
  }
  void kernel_tells(const std::string& pci, std::uint32_t xid) {
    intake_.on_kernel_xid({pci, xid, 4711, "MMU Fault"}, loop_.now());
  }
  std::vector<Event> kept() const {
    std::vector<Event> all;
    journal_.each_since(0, [&](const Event& one) { all.push_back(one); });
    return all;
  }

  CapturedLog log_;
  ManualLoop loop_;
  Journal journal_;
  std::vector<DeviceEvent> events_;
  std::vector<DeviceEvent> echoes_;
  Intake intake_{loop_,
                 journal_,
                 {[this](const DeviceEvent& event) { events_.push_back(event); },
                  [this](const DeviceEvent& event) { echoes_.push_back(event); }}};
};

TEST_F(IntakeTest, AnXidOfTheDriverIsRememberedLoggedAndPassedOn) {
  driver_tells("GPU-b", 79);
  ASSERT_EQ(kept().size(), 1U);
  const Event event = kept()[0];
  EXPECT_EQ(event.device, "GPU-b");
  EXPECT_EQ(event.index, 1U);
  EXPECT_EQ(event.kind, "xid");
  EXPECT_EQ(event.xid, 79U);
  EXPECT_EQ(event.severity, Severity::stop);
  EXPECT_EQ(event.text, "Xid 79: The GPU has fallen off the bus.");
  EXPECT_EQ(event.at, loop_.now());
  EXPECT_EQ(event.wall, loop_.wall());
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(log_.lines(),
            std::vector<std::string>{"WARNING GPU 1: Xid 79: The GPU has fallen off the bus."});
}

TEST_F(IntakeTest, ALineOfTheKernelFindsItsGpuByItsAddress) {
  kernel_tells("0000:86:00", 31);
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0].device, "GPU-b");
  EXPECT_EQ(kept()[0].text,
            "Xid 31: A program used GPU memory at an address that is not mapped. (MMU Fault)");
  EXPECT_EQ(events_[0].pid, 4711U);
}

TEST_F(IntakeTest, WhatBothSourcesTellIsOneEventAndTheSecondAnEcho) {
  driver_tells("GPU-a", 94);
  loop_.advance(seconds(1));
  kernel_tells("0000:3b:00", 94);
  EXPECT_EQ(kept().size(), 1U);
  EXPECT_EQ(events_.size(), 1U);
  ASSERT_EQ(echoes_.size(), 1U);
  EXPECT_EQ(echoes_[0].pid, 4711U);
}

TEST_F(IntakeTest, AGpuThatIsNotListedIsNamedAsTheKernelNamesIt) {
  kernel_tells("0000:c1:00", 143);
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0].device, "");
  EXPECT_FALSE(kept()[0].index);
  EXPECT_EQ(kept()[0].text,
            "the GPU at 0000:c1:00: Xid 143: The GPU could not be initialised. (MMU Fault)");
}

TEST_F(IntakeTest, AGpuIsStillKnownWhenTheDriverDoesNotCountItAnyMore) {
  intake_.on_fleet({});
  kernel_tells("0000:3b:00", 79);
  EXPECT_EQ(kept()[0].device, "GPU-a");
}

TEST_F(IntakeTest, AMadDriverHostCannotMakeGpusUpNorTheFuture) {
  intake_.on_driver_event({"GPU-x",
                           EventKind::unavailable,
                           EventSource::kernel_log,
                           loop_.now() + seconds(99),
                           79,
                           {},
                           "\x1b[2Jgone\xff"});
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0].device, "");
  EXPECT_FALSE(kept()[0].xid);
  EXPECT_EQ(kept()[0].at, loop_.now());
  EXPECT_EQ(kept()[0].text, "a GPU that is not listed: The GPU is not available. (?[2Jgone?)");
}

TEST_F(IntakeTest, AFloodIsBoundedAndWhatWasLeftOutIsCounted) {
  for (int i = 0; i < 10'000; ++i) driver_tells("GPU-a", 13);
  driver_tells("GPU-b", 79);
  const auto burst = static_cast<std::size_t>(Intake::kBurst);
  EXPECT_EQ(kept().size(), burst + 1) << "the flood of one GPU costs another nothing";
  loop_.advance(seconds(2));
  ASSERT_EQ(kept().size(), burst + 2);
  EXPECT_EQ(kept().back().kind, "events_lost");
  EXPECT_EQ(kept().back().text, "9872 more events were not passed on: too many at once");
  EXPECT_EQ(kept().back().index, 0U);
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(IntakeTest, WhatTheLogLostIsAnEventOfNoGpu) {
  intake_.on_lost("some of the kernel's log was overwritten before it was read");
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0].kind, "events_lost");
  EXPECT_EQ(kept()[0].severity, Severity::warn);
  EXPECT_EQ(kept()[0].text, "some of the kernel's log was overwritten before it was read");
}

}  // namespace
}  // namespace gpuyard::events
