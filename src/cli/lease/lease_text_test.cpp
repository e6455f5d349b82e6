#include "cli/lease/lease_text.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/command_line_for_tests.h"
#include "cli/lease/leased_run.h"
#include "faces/client/daemon_address.h"

namespace gpuyard::cli {
namespace {

using gpuyard::lease::EndReason;

protocol::Lease lease_of_one_gpu() {
  protocol::Lease lease;
  lease.state = gpuyard::lease::LeaseState::held;
  lease.gpus = {{3, "GPU-3", "0000:03:00.0", "NVIDIA H100", {}, {}}};
  return lease;
}

TEST(LeaseText, NamesItsGpus) {
  protocol::Lease lease = lease_of_one_gpu();
  EXPECT_EQ(gpus_text(lease.gpus), "GPU 3 (H100)");
  lease.gpus.push_back({5, "GPU-5", "", "NVIDIA H100", {}, {}});
  EXPECT_EQ(gpus_text(lease.gpus), "GPUs 3, 5 (H100)");
}

TEST(LeaseText, LongLengthUsesLargerUnits) {
  EXPECT_EQ(length_text(0.04), "0.0 s");
  EXPECT_EQ(length_text(9.94), "9.9 s");
  EXPECT_EQ(length_text(45), "45 s");
  EXPECT_EQ(length_text(720), "12 min");
  EXPECT_EQ(length_text(7500), "2 h 05 min");
  EXPECT_EQ(length_text(3 * 86400 + 4 * 3600), "3 d 4 h");
}

TEST(LeaseText, WaitingClaimShowsPositionReasonAndEstimate) {
  protocol::Lease lease;
  lease.wanted_gpus = 2;
  EXPECT_EQ(waiting_text(lease), "waiting for 2 GPUs");
  lease.place = {3, "busy", "All are in use.", {}};
  EXPECT_EQ(waiting_text(lease), "waiting for 2 GPUs: position 3, All are in use");
  lease.place->expected_s = 720;
  EXPECT_EQ(waiting_text(lease),
            "waiting for 2 GPUs: position 3, All are in use; wait about 12 min");
}

TEST(LeaseText, EndReasonMapsToConditionExitCode) {
  protocol::Lease lease;
  for (const EndReason ending :
       {EndReason::none_free, EndReason::gave_up, EndReason::cancelled, EndReason::forced,
        EndReason::unreachable, EndReason::node_reboot}) {
    lease.end_reason = ending;
    EXPECT_EQ(exit_code_of(claim_error(lease, {}, "").code), 7) << enum_name(ending);
  }
}

TEST(LeaseText, NoWaitHintIsTheWaitingCommand) {
  protocol::Lease lease;
  lease.wanted_gpus = 2;
  lease.end_reason = EndReason::none_free;
  lease.detail = "alice holds GPU 0";
  const auto verb =
      verb_of<RunVerb>({"run", "-n", "2", "--model", "H100 80GB", "--no-wait", "--", "./train.sh"});
  EXPECT_EQ(
      claim_error(lease, {}, "gpuyard run -n " + waiting_words(verb.wanted) + " -- ./train.sh")
          .text(),
      "2 GPUs cannot be leased now: alice holds GPU 0; try `gpuyard run -n 2 --model 'H100 80GB' "
      "--wait 1h -- ./train.sh`");
}

TEST(LeaseText, ASummaryHasTimeEnergyMemoryAndUtilisation) {
  protocol::Lease lease = lease_of_one_gpu();
  lease.use = {std::chrono::minutes(62), 1'500'000, false, {}, 87.2, std::int64_t{5} << 30};
  EXPECT_EQ(summary_text(lease, 3720),
            "62 min on GPU 3 (H100), 1.5 kJ, peak 5.0 GiB, mean utilisation 87 %");
}

TEST(LeaseText, UnmeasuredUsageIsUnknownNotZero) {
  protocol::Lease lease = lease_of_one_gpu();
  EXPECT_EQ(summary_text(lease, 60), "60 s on GPU 3 (H100); usage unknown");
  lease.use.emplace();
  EXPECT_EQ(summary_text(lease, 60),
            "60 s on GPU 3 (H100), energy unknown, peak memory unknown, utilisation unknown");
  lease.use = {std::chrono::minutes(1),  1'500'000, true,
               std::chrono::seconds(20), 87.2,      std::int64_t{5} << 30};
  EXPECT_NE(summary_text(lease, 60).find("1.5 kJ (estimated) (20 s of GPU time not measured)"),
            std::string::npos);
}

}  // namespace

namespace {

protocol::LeaseRequest claim_of(Words words) {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--", "x"});
  return new_claim(verb_of<RunVerb>(words).wanted, "run");
}

TEST(LeaseRequest, NoFiltersLeaveOptionalFieldsUnset) {
  const protocol::LeaseRequest request = claim_of({});
  EXPECT_FALSE(request.id->empty());
  EXPECT_EQ(request.gpus, 1);
  EXPECT_FALSE(request.min_free_bytes || request.model || request.among || request.max_time_s ||
               request.wait_s || request.note);
}

TEST(LeaseRequest, EveryClaimHasAnIdOfItsOwn) {
  EXPECT_NE(claim_of({}).id, claim_of({}).id);
}

TEST(LeaseRequest, IsFilledFromOptions) {
  const protocol::LeaseRequest request =
      claim_of({"--model", "H100", "--among", "0, GPU-1", "--max-time", "1.5h", "--note", "n"});
  EXPECT_EQ(request.model, "H100");
  ASSERT_EQ(request.among->size(), 2U);
  EXPECT_EQ((*request.among)[1].text, "GPU-1");
  EXPECT_EQ(request.max_time_s, 5400.0);
  EXPECT_EQ(request.note, "n");
}

TEST(LeaseRequest, MemoryIsAsPeopleWriteIt) {
  const auto bytes = [](const char* text) { return claim_of({"--min-free", text}).min_free_bytes; };
  EXPECT_EQ(bytes("20G"), std::int64_t{20} << 30);
  EXPECT_EQ(bytes("20GiB"), std::int64_t{20} << 30);
  EXPECT_EQ(bytes("512 MiB"), std::int64_t{512} << 20);
  for (const char* wrong : {"20GB", "-1", "much", "1.5G", "20T"}) {
    EXPECT_EQ(end_of({"run", "--min-free", wrong, "--", "x"}).code, 2) << wrong;
  }
}

TEST(LeaseRequest, NoWaitMeansZeroSeconds) {
  EXPECT_EQ(claim_of({"--no-wait"}).wait_s, 0.0);
  EXPECT_EQ(claim_of({"--wait", "90s"}).wait_s, 90.0);
}

TEST(LeaseRequest, AnErrorNamesItsFlag) {
  const ParseOutcome refused = end_of({"run", "--max-time", "soon", "--", "x"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.err.starts_with("gpuyard: --max-time: expected a duration")) << refused.err;
}

TEST(LeaseRequest, ANoteIsCutBetweenCharacters) {
  EXPECT_EQ(note_of("train.py"), "train.py");
  const std::string full(protocol::kMaxNoteBytes - 1, 'a');
  EXPECT_EQ(note_of(full + "bc"), full + "b");
  EXPECT_EQ(note_of(full + "\u00e4"), full) << "there is room for half of it";
  EXPECT_EQ(note_of("a\xe4"
                    "b"),
            "a\uFFFDb");
  EXPECT_LE(note_of(std::string(protocol::kMaxNoteBytes, '\xff')).size(), protocol::kMaxNoteBytes);
}

TEST(LeaseRequest, EnvironmentFenceAppliesOnlyToEnvironmentLease) {
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

TEST(LeaseRequest, InvalidIdIsRefused) {
  for (const char* const id : {"a/b", "../x", "a b", "\xff"}) {
    EXPECT_EQ(named_lease(id).error().code, Errc::invalid) << id;
  }
  EXPECT_EQ(named_lease(std::string(5000, 'a')).error().code, Errc::invalid);
}

TEST(LeasedRun, SocketIsNamedInRemovedDirectory) {
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

TEST(LeasedRun, RemoteDaemonSetsHostAndClearsSocket) {
  using testing::Contains;
  using testing::Pair;
  const auto lab = client::parse_daemon_address("ssh://lab");
  ASSERT_TRUE(lab);
  ::unsetenv("GPUYARD_SOCKET");
  const auto alone = variables_of({}, *lab);
  EXPECT_THAT(alone, Contains(Pair("GPUYARD_HOST", "ssh://lab")));
  EXPECT_THAT(alone, testing::Not(Contains(testing::Key("GPUYARD_SOCKET"))));
  ::setenv("GPUYARD_SOCKET", "/x.sock", 1);
  EXPECT_THAT(variables_of({}, *lab), Contains(Pair("GPUYARD_SOCKET", "")));
  ::unsetenv("GPUYARD_SOCKET");
  ::setenv("GPUYARD_HOST", "ssh://lab", 1);
  EXPECT_THAT(variables_of({}, http::Endpoint::unix_socket("/x.sock")),
              Contains(Pair("GPUYARD_HOST", "")));
  ::unsetenv("GPUYARD_HOST");
}

TEST(LeasedRun, TheCommandsWordsCanNameItsGpus) {
  const std::vector<protocol::LeasedGpu> gpus = {{1, "GPU-b", "", "", {}, {}},
                                                 {4, "GPU-a", "", "", {}, {}}};
  EXPECT_EQ(substitute_gpus({"x{uuids}y", "{indices},{indices}", "{other}"}, gpus),
            (std::vector<std::string>{"xGPU-b,GPU-ay", "1,4,1,4", "{other}"}));
}

}  // namespace
}  // namespace gpuyard::cli
