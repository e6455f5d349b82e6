#include "faces/protocol/history.h"

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

History with_a_gap() {
  History history;
  history.index = 3;
  history.uuid = "GPU-1";
  history.metric = "power_draw_w";
  history.points = {{1'767'225'600'250, 70.5, 71.25, 72}, {1'767'225'601'250, {}, {}, {}}};
  return history;
}

TEST(History, CsvHasLinePerPointAndBlankGaps) {
  EXPECT_EQ(csv_of(with_a_gap()),
            "3,GPU-1,power_draw_w,,2026-01-01T00:00:00.250Z,1767225600250,70.5,71.25,72\n"
            "3,GPU-1,power_draw_w,,2026-01-01T00:00:01.250Z,1767225601250,,,\n");
}

TEST(History, ItsJsonComesBack) {
  const std::string text = json::to_json(with_a_gap());
  EXPECT_NE(text.find(R"({"t_ms":1767225601250,"min":null,"mean":null,"max":null})"),
            std::string::npos)
      << text;
  const auto back = json::from_json<History>(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(json::to_json(*back), text);
}

}  // namespace
}  // namespace gpuyard::protocol
