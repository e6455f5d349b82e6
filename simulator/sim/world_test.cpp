#include "sim/world.h"

#include <string>

#include <gtest/gtest.h>

namespace gpuyard::sim {
namespace {

std::string keys_of(const Result<Fleet>& fleet) {
  std::string keys;
  if (!fleet) return "refused: " + fleet.error().message;
  for (const Model* model : *fleet)
    keys += std::string(keys.empty() ? "" : " ") + std::string(model->key);
  return keys;
}

TEST(ParseFleet, OneModelGetsTheNumberBesideIt) {
  EXPECT_EQ(keys_of(parse_fleet("t4", 3)), "t4 t4 t4");
  EXPECT_EQ(parse_fleet("h100", std::nullopt)->size(), 8U);
  EXPECT_EQ(parse_fleet("h100:64", std::nullopt)->size(), 64U);
}

TEST(ParseFleet, SeveralModelsKeepGivenOrder) {
  EXPECT_EQ(keys_of(parse_fleet("a100:2,h100:1,t4", std::nullopt)), "a100 a100 h100 t4");
  EXPECT_EQ(keys_of(parse_fleet("a100:2,t4", 3)), "a100 a100 t4");
}

TEST(ParseFleet, NonsenseIsRefusedAndNamed) {
  const auto refused = [](const char* models, std::optional<int> gpus, const char* because) {
    const auto fleet = parse_fleet(models, gpus);
    ASSERT_FALSE(fleet) << models;
    EXPECT_EQ(fleet.error().code, Errc::invalid);
    EXPECT_NE(fleet.error().message.find(because), std::string::npos) << fleet.error().message;
  };
  refused("h100", 0, "1 to 64");
  refused("h100", 65, "1 to 64");
  refused("h100", -1, "1 to 64");
  refused("h100:999", std::nullopt, "1 to 64");
  refused("h100:0", std::nullopt, "1 to 64");
  refused("h100:", std::nullopt, "1 to 64");
  refused("h100:2x", std::nullopt, "1 to 64");
  refused("h100:99999999999999999999", std::nullopt, "1 to 64");
  refused("h100:40,a100:40", std::nullopt, "not 80");
  refused("h100:2,t4", 4, "is 3 GPUs, not 4");
  refused("h9000", 1, "rtx4090");
  refused("", 1, "unknown GPU model \"\"");
  refused("h100,", std::nullopt, "unknown GPU model \"\"");
  refused("t4,h100,t4", std::nullopt, "t4 is named twice");
}

}  // namespace
}  // namespace gpuyard::sim
