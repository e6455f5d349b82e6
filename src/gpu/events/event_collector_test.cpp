#include "gpu/events/event_collector.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "gpu/events/event_log.h"

namespace gpuyard::events {
namespace {

using std::chrono::seconds;

class EventCollectorTest : public ::testing::Test {
 protected:
  EventCollectorTest() {
    event_log_.set_listener([this](const Event& one) { logged_events_.push_back(one); });
    collector_.on_inventory({{},
                             {{"GPU-a", 0, "GPU-a", "0000:3b:00.0", "H100", {}},
                              {"GPU-b", 1, "GPU-b", "0000:86:00.0", "H100", {}}}});
  }
  void report_driver_xid(const DeviceId& device, std::uint32_t xid) {
    collector_.on_driver_event(
        {device, EventKind::xid, EventSource::driver, loop_.now(), xid, {}, ""});
  }
  void report_kernel_xid(const std::string& pci, std::uint32_t xid) {
    collector_.on_kernel_xid({pci, xid, 4711, "MMU Fault"}, loop_.now());
  }

  CapturedLog log_;
  ManualLoop loop_;
  EventLog event_log_;
  std::vector<Event> logged_events_;
  std::vector<DeviceEvent> events_;
  std::vector<DeviceEvent> duplicates_;
  EventCollector collector_{loop_,
                            event_log_,
                            {[this](const DeviceEvent& event) { events_.push_back(event); },
                             [this](const DeviceEvent& event) { duplicates_.push_back(event); }}};
};

TEST_F(EventCollectorTest, DriverXidIsRecordedLoggedAndForwarded) {
  report_driver_xid("GPU-b", 79);
  ASSERT_EQ(logged_events_.size(), 1U);
  const Event event = logged_events_[0];
  EXPECT_EQ(event.device, "GPU-b");
  EXPECT_EQ(event.index, 1U);
  EXPECT_EQ(event.kind, "xid");
  EXPECT_EQ(event.xid, 79U);
  EXPECT_EQ(event.severity, EventSeverity::stop);
  EXPECT_EQ(event.text, "Xid 79: The GPU has fallen off the bus.");
  EXPECT_EQ(event.at, loop_.now());
  EXPECT_EQ(event.wall, loop_.wall());
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(log_.lines(),
            std::vector<std::string>{"WARNING GPU 1: Xid 79: The GPU has fallen off the bus."});
}

TEST_F(EventCollectorTest, KernelXidMatchesGpuByPciAddress) {
  report_kernel_xid("0000:86:00", 31);
  ASSERT_EQ(logged_events_.size(), 1U);
  EXPECT_EQ(logged_events_[0].device, "GPU-b");
  EXPECT_EQ(logged_events_[0].text,
            "Xid 31: A program accessed an unmapped GPU memory address. (MMU Fault)");
  EXPECT_EQ(events_[0].pid, 4711U);
}

TEST_F(EventCollectorTest, XidFromSecondSourceIsDuplicate) {
  report_driver_xid("GPU-a", 94);
  loop_.advance(seconds(1));
  report_kernel_xid("0000:3b:00", 94);
  EXPECT_EQ(logged_events_.size(), 1U);
  EXPECT_EQ(events_.size(), 1U);
  ASSERT_EQ(duplicates_.size(), 1U);
  EXPECT_EQ(duplicates_[0].pid, 4711U);
}

TEST_F(EventCollectorTest, UnlistedGpuIsNamedByPciAddress) {
  report_kernel_xid("0000:c1:00", 143);
  ASSERT_EQ(logged_events_.size(), 1U);
  EXPECT_EQ(logged_events_[0].device, "");
  EXPECT_FALSE(logged_events_[0].index);
  EXPECT_EQ(logged_events_[0].text,
            "the GPU at 0000:c1:00: Xid 143: The GPU could not be initialised. (MMU Fault)");
}

TEST_F(EventCollectorTest, KernelXidMatchesGpuMissingFromInventory) {
  collector_.on_inventory({});
  report_kernel_xid("0000:3b:00", 79);
  EXPECT_EQ(logged_events_[0].device, "GPU-a");
}

TEST_F(EventCollectorTest, ForgedDriverHostEventIsSanitized) {
  collector_.on_driver_event({"GPU-x",
                              EventKind::unavailable,
                              EventSource::kernel_log,
                              loop_.now() + seconds(99),
                              79,
                              {},
                              "\x1b[2Jgone\xff"});
  ASSERT_EQ(logged_events_.size(), 1U);
  EXPECT_EQ(logged_events_[0].device, "");
  EXPECT_FALSE(logged_events_[0].xid);
  EXPECT_EQ(logged_events_[0].at, loop_.now());
  EXPECT_EQ(logged_events_[0].text,
            "a GPU that is not listed: The GPU is not available. (?[2Jgone?)");
}

TEST_F(EventCollectorTest, EventFloodIsLimitedAndDropsAreCounted) {
  for (int i = 0; i < 10'000; ++i) report_driver_xid("GPU-a", 13);
  report_driver_xid("GPU-b", 79);
  const auto burst = static_cast<std::size_t>(EventCollector::kBurst);
  EXPECT_EQ(logged_events_.size(), burst + 1) << "the flood of one GPU costs another nothing";
  loop_.advance(seconds(2));
  ASSERT_EQ(logged_events_.size(), burst + 2);
  EXPECT_EQ(logged_events_.back().kind, "events_lost");
  EXPECT_EQ(logged_events_.back().text, "9872 more events were dropped: too many at once");
  EXPECT_EQ(logged_events_.back().index, 0U);
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(EventCollectorTest, FatalXidPassesNoteFlood) {
  for (int i = 0; i < 3000; ++i) report_kernel_xid("0000:3b:00", 31);
  report_kernel_xid("0000:3b:00", 95);
  report_kernel_xid("0000:3b:00", 79);
  const auto burst = static_cast<std::size_t>(EventCollector::kBurst);
  ASSERT_EQ(events_.size(), burst + 2);
  EXPECT_EQ(events_[burst].xid, 95U);
  EXPECT_EQ(events_[burst + 1].xid, 79U);
  EXPECT_EQ(logged_events_.back().severity, EventSeverity::stop);
  EXPECT_EQ(collector_.drops().kernel_log, 3000 - burst);
  EXPECT_EQ(collector_.drops().driver, 0U);
}

TEST_F(EventCollectorTest, EventsLostByDriverHostAreCounted) {
  DeviceEvent lost{"GPU-a", EventKind::events_lost, EventSource::driver, loop_.now()};
  lost.lost = 2874;
  collector_.on_driver_event(lost);
  EXPECT_EQ(collector_.drops().driver, 2874U);
}

TEST_F(EventCollectorTest, MoreSevereKernelDuplicateIsRecorded) {
  report_driver_xid("GPU-a", 149);
  collector_.on_kernel_xid(
      {"0000:3b:00", 149, std::nullopt, "NETIR_LINK_DOWN Fatal XC0 i0 Link 14"}, loop_.now());
  ASSERT_EQ(logged_events_.size(), 2U);
  EXPECT_EQ(logged_events_[0].severity, EventSeverity::warn);
  EXPECT_EQ(logged_events_[1].severity, EventSeverity::stop);
  EXPECT_EQ(logged_events_[1].text,
            "Xid 149: An NVLink error in the network interface (NETIR). (NETIR_LINK_DOWN Fatal XC0 "
            "i0 Link 14)");
  EXPECT_EQ(events_.size(), 1U);
  ASSERT_EQ(duplicates_.size(), 1U);
}

TEST_F(EventCollectorTest, KernelLogLossIsEventWithoutGpu) {
  collector_.on_events_lost("some of the kernel's log was overwritten before it was read");
  ASSERT_EQ(logged_events_.size(), 1U);
  EXPECT_EQ(logged_events_[0].kind, "events_lost");
  EXPECT_EQ(logged_events_[0].severity, EventSeverity::warn);
  EXPECT_EQ(logged_events_[0].text, "some of the kernel's log was overwritten before it was read");
}

}  // namespace
}  // namespace gpuyard::events
