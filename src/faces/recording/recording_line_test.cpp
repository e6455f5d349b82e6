#include "faces/recording/recording_line.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "faces/recording/recording_for_tests.h"

namespace gpuyard::recording {
namespace {

using std::chrono::seconds;

TEST(RecordingEncoder, BeginsWithItsHeaderAndEverythingThereIs) {
  RecordingEncoder recorder;
  auto gpu = device(0, "GPU-a");
  set(gpu, Metric::power_draw, 312'500);
  const std::string text = recorder.encode(snapshot({gpu}), seconds(0));
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_TRUE(text.starts_with(R"({"gpuyard_recording":1,"began_at":"2026-01-31T12:00:00.000Z")"));
  EXPECT_NE(text.find(R"("power_draw_w":312.5)"), std::string::npos) << text;
}

TEST(RecordingEncoder, LaterLinesHaveOnlyChanges) {
  RecordingEncoder recorder;
  auto gpu = device(0, "GPU-a");
  set(gpu, Metric::power_draw, 312'500);
  set(gpu, Metric::temperature_core, 50);
  static_cast<void>(recorder.encode(snapshot({gpu}), seconds(0)));
  EXPECT_EQ(recorder.encode(snapshot({gpu}), seconds(1)), "");
  set(gpu, Metric::power_draw, 300'000);
  EXPECT_EQ(recorder.encode(snapshot({gpu}), seconds(2)),
            R"({"t_ms":2000,"gpu":0,"readings":{"power_draw_w":300}})"
            "\n");
}

TEST(RecordingEncoder, MissingReadingIsNullWithReason) {
  RecordingEncoder recorder;
  auto gpu = device(0, "GPU-a");
  set(gpu, Metric::power_draw, 312'500);
  static_cast<void>(recorder.encode(snapshot({gpu}), seconds(0)));
  gpu.readings.set({Metric::power_draw, 0, {}, Missing{}});
  gpu.missing["power_draw_w"] = {MissingReason::failed, "Unknown Error"};
  EXPECT_EQ(recorder.encode(snapshot({gpu}), seconds(1)),
            R"({"t_ms":1000,"gpu":0,"readings":{"power_draw_w":null},)"
            R"("missing":{"power_draw_w":"Unknown Error"}})"
            "\n");
  gpu.missing["power_draw_w"] = {MissingReason::failed, "Timeout"};
  EXPECT_NE(recorder.encode(snapshot({gpu}), seconds(2)).find("Timeout"), std::string::npos);
}

TEST(RecordingEncoder, ChangedInventoryIsWrittenInFull) {
  RecordingEncoder recorder;
  auto first = device(0, "GPU-a");
  auto second = device(1, "GPU-b");
  set(first, Metric::power_draw, 1'000);
  set(second, Metric::power_draw, 2'000);
  static_cast<void>(recorder.encode(snapshot({first, second}), seconds(0)));
  second.index = 0;
  const std::string text = recorder.encode(snapshot({second}), seconds(1));
  EXPECT_NE(text.find(R"("gpus":[{"index":0,"uuid":"GPU-b")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("power_draw_w":2)"), std::string::npos) << text;
}

TEST(RecordingEncoder, UnresponsiveGpuIsWrittenWithReason) {
  RecordingEncoder recorder;
  auto gpu = device(0, "GPU-a");
  static_cast<void>(recorder.encode(snapshot({gpu}), seconds(0)));
  gpu.condition = DeviceCondition::unresponsive;
  gpu.why = "last reading 2.0 s old";
  EXPECT_EQ(recorder.encode(snapshot({gpu}), seconds(1)),
            R"({"t_ms":1000,"gpu":0,"condition":"unresponsive","why":"last reading 2.0 s old"})"
            "\n");
}

}  // namespace
}  // namespace gpuyard::recording
