#include "gpu/nvml/event_receiver.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "gpu/nvml/fake_nvml_for_tests.h"

namespace gpuyard::nvml {
namespace {

// The event side of a driver, as plain functions over one state.
struct EventDriver {
  unsigned long long supported = kEventXid | kEventSingleBitEcc;
  std::map<unsigned, ReturnCode> register_codes;
  std::map<unsigned, unsigned long long> registered;  // in the current set
  std::deque<EventData> events;
  ReturnCode wait_code = kSuccess;
  int sets = 0;
  int freed = 0;
  unsigned waited_ms = 0;
};
EventDriver event_driver;

Api event_api() {
  event_driver = EventDriver{};
  Api api = healthy_api();
  api.event_set_create = {[](EventSet* out) {
    static std::array<char, 1> target;
    *out = reinterpret_cast<EventSet>(target.data());
    event_driver.registered.clear();
    ++event_driver.sets;
    return kSuccess;
  }};
  api.event_set_free = {[](EventSet) { return ++event_driver.freed, kSuccess; }};
  api.supported_event_types = {[](DeviceHandle, unsigned long long* out) {
    return *out = event_driver.supported, kSuccess;
  }};
  api.register_events = {[](DeviceHandle device, unsigned long long types, EventSet) {
    const unsigned index = index_of(device);
    if (const auto code = event_driver.register_codes.find(index);
        code != event_driver.register_codes.end()) {
      return code->second;
    }
    event_driver.registered[index] = types;
    return kSuccess;
  }};
  api.event_set_wait = {[](EventSet, EventData* out, unsigned timeout_ms) {
    event_driver.waited_ms = timeout_ms;
    if (event_driver.wait_code != kSuccess) return event_driver.wait_code;
    // Behaves like a real set: with one lost GPU in it no wait succeeds.
    for (const auto& [index, code] : event_driver.register_codes) {
      if (event_driver.registered.contains(index)) return code;
    }
    if (event_driver.events.empty()) return kTimeout;
    *out = event_driver.events.front();
    event_driver.events.pop_front();
    return kSuccess;
  }};
  return api;
}

class EventReceiverTest : public ::testing::Test {
 protected:
  Result<std::optional<DeviceEvent>> next() {
    return watch_.next_event(open_, std::chrono::milliseconds(250));
  }
  static void happen(unsigned gpu, unsigned long long type, unsigned long long data = 0) {
    event_driver.events.push_back({handle_of(gpu), type, data});
  }

  Api api_ = event_api();
  std::map<DeviceId, DeviceHandle> open_ = {{"GPU-0", handle_of(0)}, {"GPU-1", handle_of(1)}};
  EventReceiver watch_{api_};
};

TEST_F(EventReceiverTest, XidEventIncludesGpu) {
  happen(1, kEventXid, 79);
  const auto event = next();
  ASSERT_TRUE(event.ok() && *event);
  EXPECT_EQ((*event)->device, "GPU-1");
  EXPECT_EQ((*event)->kind, EventKind::xid);
  EXPECT_EQ((*event)->xid, 79U);
  EXPECT_EQ(event_driver.waited_ms, 250U);
}

TEST_F(EventReceiverTest, OtherKindsHaveNoNumber) {
  const std::pair<unsigned long long, EventKind> kinds[] = {
      {kEventSingleBitEcc, EventKind::ecc_corrected},
      {kEventDoubleBitEcc, EventKind::ecc_uncorrected},
      {kEventPoison, EventKind::poison},
      {kEventFatalPoison, EventKind::fatal_poison},
      {kEventUnavailable, EventKind::unavailable},
      {kEventRecoveryAction, EventKind::recovery_action}};
  for (const auto& [type, kind] : kinds) {
    happen(0, type, 5);
    const auto event = next();
    ASSERT_TRUE(event.ok() && *event) << type;
    EXPECT_EQ((*event)->kind, kind);
    EXPECT_FALSE((*event)->xid);
  }
}

TEST_F(EventReceiverTest, WaitWithoutEventReturnsEmpty) {
  const auto event = next();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(*event);
}

TEST_F(EventReceiverTest, GpuIsRegisteredOnceForSupportedEvents) {
  event_driver.supported = kEventXid | 0x4;  // 0x4: changes of the performance state, not wanted
  static_cast<void>(next().ok());
  EXPECT_EQ(event_driver.registered, (std::map<unsigned, unsigned long long>{{0, 0x8}, {1, 0x8}}));
  event_driver.registered.clear();
  open_["GPU-2"] = handle_of(2);
  static_cast<void>(next().ok());
  EXPECT_EQ(event_driver.registered, (std::map<unsigned, unsigned long long>{{2, 0x8}}));
  EXPECT_EQ(event_driver.sets, 1);
}

TEST_F(EventReceiverTest, UnknownSupportRegistersXidEvents) {
  api_.supported_event_types = {};
  static_cast<void>(next().ok());
  EXPECT_EQ(event_driver.registered[0], kEventXid);
}

TEST_F(EventReceiverTest, LibraryWithoutEventsIsUnsupported) {
  api_.event_set_wait = {};
  EXPECT_EQ(next().error().code, Errc::unsupported);
  api_ = event_api();
  api_.event_set_create = {};
  EXPECT_EQ(next().error().code, Errc::unsupported);
}

TEST_F(EventReceiverTest, GpusWithoutEventsTakeNoPart) {
  event_driver.supported = 0;
  EXPECT_EQ(next().error().code, Errc::unavailable);
  EXPECT_TRUE(event_driver.registered.empty());
}

TEST_F(EventReceiverTest, LostGpuIsReportedOnceAndOthersContinue) {
  ASSERT_TRUE(next().ok());
  event_driver.register_codes[0] = kGpuIsLost;
  EXPECT_EQ(next().error().code, Errc::device_lost);
  const auto event = next();
  ASSERT_TRUE(event.ok() && *event);
  EXPECT_EQ((*event)->kind, EventKind::unavailable);
  EXPECT_EQ((*event)->device, "GPU-0");
  EXPECT_EQ((*event)->text, "GPU is lost");
  happen(1, kEventXid, 13);
  const auto other = next();
  ASSERT_TRUE(other.ok() && *other);
  EXPECT_EQ((*other)->device, "GPU-1");
  EXPECT_FALSE(*next()) << "told once";
  EXPECT_EQ(event_driver.freed, 1);
}

TEST_F(EventReceiverTest, FailingWaitIsErrorEachTime) {
  event_driver.wait_code = kUnknown;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(next().ok());
  event_driver.wait_code = kSuccess;
  EXPECT_TRUE(next().ok());
  EXPECT_EQ(event_driver.sets, event_driver.freed + 1);
}

TEST_F(EventReceiverTest, EventOfUnopenedGpuIsIgnored) {
  happen(9, kEventXid, 79);
  const auto event = next();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(*event);
}

}  // namespace
}  // namespace gpuyard::nvml
