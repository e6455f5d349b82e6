#include "gpu/driver/message.h"

#include <random>

#include <gtest/gtest.h>

namespace gpuyard::driver {
namespace {

Inventory some_fleet() {
  DeviceInfo broken{"index:1", 1, "", "", "", Missing{MissingReason::failed, "Unknown Error"}};
  return {{"535.104.05", std::nullopt, "12.535.104", "/lib/libnvidia-ml.so.1"},
          {{"GPU-a", 0, "GPU-a", "0000:01:00.0", "H100", {}, {"0000:02:00.0", "switch"}}, broken}};
}

Sample some_sample() {
  Sample sample;
  sample.set({Metric::memory_total, 0, TimePoint(std::chrono::seconds(7)), std::int64_t{1} << 40U});
  sample.set({Metric::power_draw, 0, TimePoint(std::chrono::seconds(8)),
              Missing{MissingReason::not_supported, ""}});
  sample.set({Metric::name, 2, TimePoint(std::chrono::seconds(9)), std::string("a\0b", 3)});
  return sample;
}

template <class T>
std::string encoded(const T& value) {
  std::string bytes;
  Encoder(bytes).put(value);
  return bytes;
}

template <class T>
std::optional<T> decoded(std::string_view bytes) {
  T value{};
  Decoder decoder(bytes);
  decoder.get(value);
  return decoder.is_complete() ? std::optional(std::move(value)) : std::nullopt;
}

TEST(Codec, AFleetSurvivesTheTrip) {
  EXPECT_EQ(decoded<Inventory>(encoded(some_fleet())), some_fleet());
}

TEST(Codec, EveryKindOfReadingSurvivesTheTrip) {
  EXPECT_EQ(decoded<Sample>(encoded(some_sample())), some_sample());
}

TEST(Codec, AnEventSurvivesTheTrip) {
  const DeviceEvent event{
      "GPU-a", EventKind::xid, EventSource::kernel_log, TimePoint(std::chrono::seconds(7)), 94,
      4711,    "Contained"};
  const auto received = decoded<DriverHostMessage>(encoded(DriverHostMessage(event)));
  ASSERT_TRUE(received);
  EXPECT_EQ(std::get<DeviceEvent>(*received), event);
}

CommandReply some_command_reply() {
  const TimePoint at(std::chrono::seconds(7));
  const SettingState state{SettingValue{1, 1}, SettingValue{2, 2}, SettingValue{3, 4},
                           SettingValue{5, 5}};
  return {42, "GPU-a", Error{Errc::denied, "no"}, state, state, 1LL << 40U, true, at, at};
}

TEST(Codec, EveryCommandSurvivesTheTrip) {
  const Command commands[] = {
      ReadSetting{SettingKind::ecc}, Apply{gpu_clocks(1200, 1500), {{1, 2}}},
      Apply{unlocked(SettingKind::memory_clocks)}, ClearEcc{EccCounter::lifetime}, ReadEnergy{}};
  for (const Command& command : commands) {
    const CommandRequest request{7, "GPU-a", command, "r1", TimePoint(std::chrono::seconds(9))};
    const auto received = decoded<DriverHostRequest>(encoded(DriverHostRequest(request)));
    ASSERT_TRUE(received);
    EXPECT_EQ(encoded(*received), encoded(DriverHostRequest(request)));
    EXPECT_EQ(std::get<CommandRequest>(*received).command.index(), command.index());
  }
}

TEST(Codec, TheAnswerToACommandSurvivesTheTrip) {
  const auto received =
      decoded<DriverHostMessage>(encoded(DriverHostMessage(some_command_reply())));
  ASSERT_TRUE(received);
  const auto& reply = std::get<CommandReply>(*received);
  EXPECT_EQ(*reply.failure, (Error{Errc::denied, "no"}));
  EXPECT_EQ(reply.after, some_command_reply().after);
  EXPECT_EQ(reply.energy_mj, 1LL << 40U);
  EXPECT_TRUE(reply.called);
}

TEST(Codec, ASettingThatDoesNotExistIsRefused) {
  const ReadSetting command{static_cast<SettingKind>(200)};
  EXPECT_FALSE(decoded<Command>(encoded(Command(command))));
}

TEST(Codec, AnEventOfAnUnknownKindIsRefused) {
  DeviceEvent event{"GPU-a", EventKind::xid};
  event.kind = static_cast<EventKind>(200);
  EXPECT_FALSE(decoded<DriverHostMessage>(encoded(DriverHostMessage(event))));
}

TEST(Codec, AMessageCutAnywhereIsRefused) {
  const std::string bytes = encoded(DriverHostMessage(ReadReplies{{42, "GPU-a", some_sample()}}));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decoded<DriverHostMessage>(std::string_view(bytes).substr(0, length))) << length;
  }
}

TEST(Codec, AMessageWithSomethingLeftOverIsRefused) {
  EXPECT_FALSE(decoded<DriverHostMessage>(
      encoded(DriverHostMessage(Hello{some_fleet(), Errc::internal, ""})) + "x"));
}

TEST(Codec, AFalseLengthRunsOutOfBytesNotOfMemory) {
  const std::uint32_t four_billion = UINT32_MAX;
  EXPECT_FALSE(decoded<std::vector<Reading>>(encoded(four_billion)));
  EXPECT_FALSE(decoded<std::string>(encoded(four_billion)));
}

TEST(Codec, AMetricThatDoesNotExistIsRefused) {
  std::vector<Reading> readings = {{static_cast<Metric>(kMetricCount), 0, {}, std::int64_t{1}}};
  EXPECT_FALSE(decoded<Sample>(encoded(readings)));
}

TEST(Codec, AReasonThatDoesNotExistIsRefused) {
  EXPECT_FALSE(decoded<MissingReason>(encoded(static_cast<MissingReason>(200))));
}

TEST(Codec, CorruptedCommandIsRejectedOrDecodedConsistently) {
  std::mt19937 random(20261121);
  const CommandRequest request{7, "GPU-a", Apply{gpu_clocks(1200, 1500), {{1, 2}}}, "r1",
                               TimePoint(std::chrono::seconds(9))};
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encoded(DriverHostRequest(request));
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (const auto message = decoded<DriverHostRequest>(bytes)) {
      EXPECT_EQ(encoded(*decoded<DriverHostRequest>(encoded(*message))), encoded(*message));
    }
  }
}

TEST(Codec, RandomBytesAreRefusedOrDecodedSafely) {
  std::mt19937 random(20260101);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encoded(DriverHostMessage(ReadReplies{{1, "GPU-a", some_sample()}}));
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (const auto message = decoded<DriverHostMessage>(bytes)) {
      // Accepted bytes are a message: it is the same after another round trip.
      EXPECT_EQ(encoded(*decoded<DriverHostMessage>(encoded(*message))), encoded(*message));
    }
  }
}

}  // namespace
}  // namespace gpuyard::driver
