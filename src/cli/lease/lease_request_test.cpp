#include "cli/lease/lease_request.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/lease/leased_run.h"

namespace gpuyard::cli {
namespace {

TEST(LeaseRequest, SaysOnlyWhatTheUserSaid) {
  const auto wish = wish_of(LeaseFilters{});
  ASSERT_TRUE(wish.ok());
  EXPECT_FALSE(wish->id->empty());
  EXPECT_EQ(wish->gpus, 1);
  EXPECT_FALSE(wish->min_free_bytes || wish->model || wish->among || wish->max_time_s ||
               wish->wait_s || wish->note);
}

TEST(LeaseRequest, EveryClaimHasAnIdOfItsOwn) {
  EXPECT_NE(wish_of(LeaseFilters{})->id, wish_of(LeaseFilters{})->id);
}

TEST(LeaseRequest, MemoryIsAsPeopleWriteIt) {
  const auto bytes = [](const char* text) {
    LeaseFilters wanted;
    wanted.min_free = text;
    const auto wish = wish_of(wanted);
    return wish ? wish->min_free_bytes.value_or(0) : -1;
  };
  EXPECT_EQ(bytes("20G"), std::int64_t{20} << 30);
  EXPECT_EQ(bytes("20GiB"), std::int64_t{20} << 30);
  EXPECT_EQ(bytes("512 MiB"), std::int64_t{512} << 20);
  for (const char* wrong : {"20GB", "-1", "much", "1.5G", "20T"}) EXPECT_EQ(bytes(wrong), -1);
}

TEST(LeaseRequest, NotToWaitIsToWaitForNoTime) {
  LeaseFilters wanted;
  wanted.no_wait = true;
  EXPECT_EQ(wish_of(wanted)->wait_s, 0.0);
  wanted = {};
  wanted.wait = "90s";
  EXPECT_EQ(wish_of(wanted)->wait_s, 90.0);
}

TEST(LeaseRequest, AnErrorNamesItsFlag) {
  LeaseFilters wanted;
  wanted.max_time = "soon";
  const auto wish = wish_of(wanted);
  ASSERT_FALSE(wish.ok());
  EXPECT_EQ(wish.error().code, Errc::invalid);
  EXPECT_TRUE(wish.error().message.starts_with("--max-time"));
}

TEST(LeaseRequest, ANoteIsCutBetweenCharacters) {
  EXPECT_EQ(note_of("train.py"), "train.py");
  const std::string full(protocol::kLongestNote - 1, 'a');
  EXPECT_EQ(note_of(full + "bc"), full + "b");
  EXPECT_EQ(note_of(full + "\u00e4"), full) << "there is room for half of it";
  EXPECT_EQ(note_of("a\xe4"
                    "b"),
            "a\uFFFDb");
  EXPECT_LE(note_of(std::string(protocol::kLongestNote, '\xff')).size(), protocol::kLongestNote);
}

TEST(LeaseRequest, TheFenceOfTheEnvironmentIsOfItsOwnLeaseAlone) {
  ::setenv("GPUYARD_LEASE", "mine", 1);
  ::setenv("GPUYARD_FENCE", "7", 1);
  EXPECT_EQ(named_lease("")->id, "mine");
  EXPECT_EQ(named_lease("")->fence, 7U);
  EXPECT_EQ(named_lease("mine")->fence, 7U);
  EXPECT_FALSE(named_lease("other")->fence);
  ::setenv("GPUYARD_FENCE", "7x", 1);
  EXPECT_FALSE(named_lease("mine")->fence);
  ::unsetenv("GPUYARD_LEASE");
  ::unsetenv("GPUYARD_FENCE");
  EXPECT_EQ(named_lease("").error().code, Errc::invalid);
}

TEST(LeaseRequest, WhatIsNoIdIsNotAsked) {
  for (const char* const id : {"a/b", "../x", "a b", "\xff"}) {
    EXPECT_EQ(named_lease(id).error().code, Errc::invalid) << id;
  }
  EXPECT_EQ(named_lease(std::string(5000, 'a')).error().code, Errc::invalid);
}

TEST(LeasedRun, TheSocketIsNamedAlsoWhereTheDirectoryIsGone) {
  const auto here = std::filesystem::current_path();
  const auto gone = std::filesystem::temp_directory_path() / "gpuyard-gone-XXXXXX";
  std::string place = gone.string();
  ASSERT_NE(::mkdtemp(place.data()), nullptr);
  std::filesystem::current_path(place);
  std::filesystem::remove(place);
  const auto variables = variables_of({}, http::Endpoint::unix_socket("x.sock"));
  std::filesystem::current_path(here);
  EXPECT_THAT(variables, testing::Contains(testing::Pair("GPUYARD_SOCKET", "x.sock")));
}

TEST(LeasedRun, TheCommandsWordsCanNameItsGpus) {
  const std::vector<protocol::LeasedGpu> gpus = {{1, "GPU-b", "", "", {}, {}},
                                                 {4, "GPU-a", "", "", {}, {}}};
  EXPECT_EQ(with_gpus({"x{uuids}y", "{indices},{indices}", "{other}"}, gpus),
            (std::vector<std::string>{"xGPU-b,GPU-ay", "1,4,1,4", "{other}"}));
}

}  // namespace
}  // namespace gpuyard::cli
