#include <gmock/gmock.h>

#include <random>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

using lease::LeaseState;

class OneGpu : public LeaseRoutes {
 protected:
  OneGpu() : LeaseRoutes(1) {}
};

TEST_F(LeaseRoutes, GrantedClaimReturnsGpusAndFence) {
  const auto lease = held(
      R"({"id":"train-1-of-many-leases","gpus":2,"max_time_s":60,"note":"train.py"})", process(10));
  EXPECT_EQ(lease.id, "train-1-of-many-leases");
  EXPECT_EQ(lease.binding, lease::Binding::process);
  EXPECT_EQ(lease.uid, kAlice);
  EXPECT_EQ(lease.user, "alice");
  EXPECT_EQ(lease.pid, 10U);
  EXPECT_EQ(lease.note, "train.py");
  EXPECT_EQ(lease.fence, 1U);
  ASSERT_EQ(lease.gpus.size(), 2U);
  EXPECT_EQ(lease.gpus[0].index, 0U);
  EXPECT_EQ(lease.gpus[0].uuid, "GPU-0");
  EXPECT_EQ(lease.gpus[0].name, "NVIDIA H100");
  EXPECT_EQ(lease.gpus[0].utilization_percent, std::nullopt);  // nobody has read it: not 0
  EXPECT_EQ(lease.place.has_value(), false);
  EXPECT_TRUE(lease.granted_wall && lease.until && !lease.ended_wall);
}

TEST_F(LeaseRoutes, UncommittedLeaseAcceptsChanges) {
  world_.disk.slow = true;
  const std::string lease = std::string(kLeases) + "/train-1-of-many-leases";
  const auto claim =
      ask(http::Method::post, kLeases, R"({"id":"train-1-of-many-leases"})", process(10));
  const auto renewed = ask(http::Method::post, lease + "/renew", R"({"ttl_s":90})", process(10));
  const auto added = ask(http::Method::post, lease + "/processes", R"({"pid":10})", process(10));
  const auto released = ask(http::Method::del, lease, "", process(10));
  EXPECT_FALSE(claim->is_answered());
  world_.disk.finish();
  pass(std::chrono::seconds(1));
  EXPECT_EQ(claim->status(), 200);
  EXPECT_EQ(released->status(), 200) << released->text();
  EXPECT_TRUE(renewed->is_answered() && added->is_answered());
}

TEST_F(LeaseRoutes, NoteIsVisibleToOwnerAndRootOnly) {
  held(R"({"id":"train-1-of-many-leases","note":"train.py --secret"})", process(10));
  const std::string path = "/api/gpu/leases/train-1-of-many-leases";
  EXPECT_EQ(get(path, process(11, kAlice))->lease().note, "train.py --secret");
  EXPECT_EQ(get(path, process(12, 0))->lease().note, "train.py --secret");
  const auto bobs = get(path, process(13, kBob))->lease();
  EXPECT_EQ(bobs.note, "");
  EXPECT_EQ(bobs.pid, 10U);
  const auto strangers = get(path)->lease();
  EXPECT_EQ(strangers.note, "");
  EXPECT_EQ(strangers.pid, std::nullopt);
  EXPECT_EQ(strangers.uid, kAlice);  // everybody may see who has the GPU
  for (const char* all : {kLeases, "/api/gpu/queue"}) {
    EXPECT_THAT(get(all)->text(), testing::Not(HasSubstr("secret"))) << all;
  }
}

TEST_F(OneGpu, WaitingClaimIsAnsweredAtGrant) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  const auto second = claim(R"({"id":"second-of-many-leases"})", process(11, kBob));
  pass(seconds(20));
  EXPECT_FALSE(second->is_answered());
  EXPECT_EQ(del("/api/gpu/leases/first-of-many-leases", process(10))->status(), 200);
  pass(seconds(1));
  ASSERT_TRUE(second->is_answered());
  EXPECT_EQ(second->lease().state, LeaseState::held);
}

TEST_F(OneGpu, LongWaitReturnsPositionAndAllowsRetry) {
  held(R"({"id":"first-of-many-leases","max_time_s":600})", process(10));
  const auto second =
      claim(R"({"id":"second-of-many-leases","answer_within_s":2})", process(11, kBob));
  pass(milliseconds(1999));
  EXPECT_FALSE(second->is_answered());
  pass(milliseconds(1));
  ASSERT_TRUE(second->is_answered());
  const auto lease = second->lease();
  EXPECT_EQ(lease.state, LeaseState::waiting);
  ASSERT_TRUE(lease.place);
  EXPECT_EQ(lease.place->position, 1);
  EXPECT_EQ(lease.place->why, "busy");
  EXPECT_THAT(lease.place->text,
              HasSubstr("1 of 1 matching GPUs is needed; leased: GPU 0 (alice)"));
  EXPECT_NEAR(lease.place->expected_s.value_or(0), 598, 0.1);
  const auto again =
      claim(R"({"id":"second-of-many-leases","answer_within_s":0})", process(11, kBob));
  EXPECT_EQ(again->status(), 200);
  EXPECT_EQ(again->lease().id, "second-of-many-leases");
  EXPECT_EQ(claim(R"({"id":"second-of-many-leases","gpus":1,"model":"h100"})", process(11, kBob))
                ->status(),
            409);
  EXPECT_EQ(claim(R"({"id":"second-of-many-leases"})", process(10))->status(), 409);  // not his
}

TEST_F(LeaseRoutes, RepeatedClaimKeepsOriginallyNamedGpus) {
  const auto first = held(R"({"id":"train-1-of-many-leases","among":[0]})", process(10));
  Inventory fleet;
  fleet.devices.push_back(world_.fleet[1].info);
  fleet.devices[0].index = 0;
  telemetry_.on_inventory(fleet);
  pass(milliseconds(300));
  const auto again =
      claim(R"({"id":"train-1-of-many-leases","among":[0]})", process(10));  // another has it now
  ASSERT_EQ(again->status(), 200) << again->text();
  EXPECT_EQ(again->lease().gpus.at(0).uuid, first.gpus.at(0).uuid);
}

TEST_F(OneGpu, DisconnectedClaimEndsAfterReconnectTimeout) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  const auto second = claim(R"({"id":"second-of-many-leases"})", process(11, kBob));
  pass(seconds(10));
  second->presence->notify();
  pass(lease::LeaseManager::kReconnectTimeout - seconds(1));
  EXPECT_EQ(world_.state("second-of-many-leases"), LeaseState::waiting);
  pass(seconds(3));
  EXPECT_EQ(world_.state("second-of-many-leases"), LeaseState::ended);
  EXPECT_NE(second->status(), 200);
  EXPECT_EQ(get("/api/gpu/leases/second-of-many-leases")->lease().end_reason,
            lease::EndReason::unreachable);
}

TEST_F(LeaseRoutes, AnIdMayShareABeginningWithAnother) {
  held(R"({"id":"train-pipeline-0"})", process(10));
  held(R"({"id":"train-pipeline-0001"})", process(11, kBob));
  for (const char* const body :
       {R"({"id":"too-short-an-id"})", R"({"id":"--help-is-an-option"})"}) {
    EXPECT_EQ(claim(body, process(11, kBob))->status(), 400) << body;
  }
  const auto same = claim(R"({"id":"train-pipeline-0"})", process(11, kBob));
  EXPECT_EQ(same->status(), 409);
  EXPECT_THAT(same->message(), HasSubstr("another user's lease"));
  EXPECT_EQ(get("/api/gpu/leases/train-pipeline-0")->lease().id, "train-pipeline-0");
}

TEST_F(LeaseRoutes, OwnLeasePrefixPrecedesOtherUsersLeases) {
  held(R"({"id":"train-pipeline-0001"})", process(10));
  held(R"({"id":"train-pipeline-0"})", process(11, kBob));
  for (const char* const name : {"train", "train-pipeline-0"}) {
    const std::string path = std::string("/api/gpu/leases/") + name;
    EXPECT_EQ(get(path, process(10))->lease().id, "train-pipeline-0001") << name;
    EXPECT_EQ(get(path, process(11, kBob))->lease().id, "train-pipeline-0") << name;
  }
  EXPECT_EQ(get("/api/gpu/leases/train", process(12, 0))->status(), 409)
      << "root names the leases of all users";
  EXPECT_EQ(get("/api/gpu/leases/train-pipeline-0", process(12, 0))->lease().uid, kBob);
  EXPECT_EQ(del("/api/gpu/leases/train", process(10))->status(), 200);
  EXPECT_EQ(get("/api/gpu/leases/train-pipeline-0", process(11, kBob))->lease().state,
            LeaseState::held);
}

TEST_F(LeaseRoutes, LeaseIsFoundByIdPrefix) {
  held(R"({"id":"alpha-1-of-many-leases"})", process(10));
  held(R"({"id":"alpha-2-of-many-leases"})", process(10));
  const auto both = get("/api/gpu/leases/alpha");
  EXPECT_EQ(both->status(), 409);
  EXPECT_THAT(both->message(), HasSubstr("alpha-1-of-many-leases, alpha-2-of-many-leases"));
  EXPECT_EQ(get("/api/gpu/leases/alp")->status(), 404);  // too short
  EXPECT_EQ(get("/api/gpu/leases/alpha-2-of-many-leases")->lease().id, "alpha-2-of-many-leases");
  EXPECT_EQ(del("/api/gpu/leases/alpha-2-of-many-leases", process(10))->status(), 200);
  pass(seconds(1));
  EXPECT_EQ(get("/api/gpu/leases/alpha-")->lease().id,
            "alpha-1-of-many-leases");  // the only one that is not over
  EXPECT_EQ(del("/api/gpu/leases/beta", process(10))->status(), 404);
}

TEST_F(LeaseRoutes, OnlyHolderOrAdministratorReleasesLease) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  const std::string path = "/api/gpu/leases/train-1-of-many-leases";
  const auto bobs = del(path, process(11, kBob));
  EXPECT_EQ(bobs->status(), 403);
  EXPECT_THAT(bobs->message(), HasSubstr("UID 1000"));
  EXPECT_EQ(del(path + "?fence=7", process(10))->status(), 409);
  EXPECT_EQ(del(path + "?signal=USR1", process(10))->status(), 400);
  EXPECT_EQ(del(path + "?force=true", process(12, 0))->status(), 400);  // no reason
  EXPECT_EQ(del(path + "?force=true&reason=mine", process(10))->status(), 403);
  const auto given = del(path + "?fence=1&signal=TERM", process(10));
  EXPECT_EQ(given->status(), 200);
  EXPECT_EQ(given->lease().state, LeaseState::ended) << "no process is left to signal";
  EXPECT_EQ(get(path)->lease().end_reason, lease::EndReason::released);
  EXPECT_EQ(del(path, process(10))->status(), 200);  // what is over stays so
}

// A daemon without CAP_KILL, and a lease of process 10 under which process 20 runs.
class UnsignalledLease : public LeaseRoutes {
 protected:
  UnsignalledLease() {
    held(R"({"id":"train-1-of-many-leases","binding":"run"})", process(10));
    process(20);
    world_.observer.running.at(20).lease = "train-1-of-many-leases";
    world_.observer.may_signal = false;
    context_.users.can_signal = [](std::uint32_t) { return false; };
  }
  Calls ask_release(http::Peer peer) {
    const Calls call = del(kPath + std::string("?signal=TERM"), std::move(peer));
    pass(seconds(1));
    return call;
  }
  static protocol::ReleaseAnswer answer_in(const Calls& call) {
    const auto read = json::from_json<protocol::ReleaseAnswer>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::ReleaseAnswer{};
  }

  static constexpr const char* kPath = "/api/gpu/leases/train-1-of-many-leases";
};

TEST_F(UnsignalledLease, ReleaseListsItsProcesses) {
  const auto answer = answer_in(ask_release(process(10)));
  ASSERT_TRUE(answer.unsignalled);
  ASSERT_EQ(answer.unsignalled->processes.size(), 1U);
  const auto& left = answer.unsignalled->processes[0];
  const auto& known = world_.observer.running.at(20).identity.key;
  EXPECT_EQ(left.pid, 20U);
  EXPECT_EQ(left.started_after_boot_ms, to_milliseconds(known.started.time_since_epoch()));
  EXPECT_EQ(answer.unsignalled->signal, "TERM");
  EXPECT_THAT(answer.unsignalled->pid_namespace, testing::StartsWith("pid:["));
  EXPECT_EQ(answer.unsignalled->why, "");
  EXPECT_EQ(answer.lease.state, LeaseState::draining);
  EXPECT_THAT(answer.lease.detail, HasSubstr("process 20 runs as another user"))
      << "for clients that do not know the list";
}

TEST_F(UnsignalledLease, ReleaseWithoutSignalListsNoProcesses) {
  const auto answer = answer_in(del(kPath, process(10)));
  EXPECT_FALSE(answer.unsignalled);
  EXPECT_EQ(answer.lease.state, LeaseState::draining);
}

TEST_F(UnsignalledLease, LongListIsCut) {
  for (std::uint32_t pid = 100; pid < 100 + protocol::kMaxUnsignalled; ++pid) {
    process(pid);
    world_.observer.running.at(pid).lease = "train-1-of-many-leases";
  }
  const auto answer = answer_in(ask_release(process(10)));
  ASSERT_TRUE(answer.unsignalled);
  EXPECT_EQ(answer.unsignalled->processes.size(), protocol::kMaxUnsignalled);
  EXPECT_EQ(answer.unsignalled->left_out, 1U);
}

TEST_F(UnsignalledLease, TokenSignalIsRefusedBeforeRelease) {
  token_ = made({.name = "ci", .uid = kAlice, .scope = Scope::lease, .made_by = "uid 0"}).text;
  const Calls refused = ask_release(over_tls());
  EXPECT_EQ(refused->status(), 403) << refused->text();
  EXPECT_THAT(refused->text(), HasSubstr("gpuyard -H ssh://HOST lease release"));
  EXPECT_EQ(get(kPath, over_tls())->lease().state, LeaseState::held);
  EXPECT_EQ(del(kPath, over_tls())->lease().state, LeaseState::draining) << "without a signal";
}

TEST_F(UnsignalledLease, TokenHolderGetsNoProcessNumbers) {
  context_.users.can_signal = [](std::uint32_t) { return true; };  // the process is another user's
  token_ = made({.name = "ci", .uid = kAlice, .scope = Scope::lease, .made_by = "uid 0"}).text;
  const auto answer = answer_in(ask_release(over_tls()));
  ASSERT_TRUE(answer.unsignalled);
  EXPECT_THAT(answer.unsignalled->processes, IsEmpty());
  EXPECT_NE(answer.unsignalled->why, "");
}

TEST_F(UnsignalledLease, HangingObservationIsAnsweredInTime) {
  world_.observer.blind = true;
  const auto answer = answer_in(ask_release(process(10)));
  ASSERT_TRUE(answer.unsignalled);
  EXPECT_THAT(answer.unsignalled->why, HasSubstr("could not be checked in time"));
}

TEST_F(LeaseRoutes, AnAdministratorForcesWithAReason) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  const auto forced =
      del("/api/gpu/leases/train-1-of-many-leases?force=true&reason=node%20goes", process(12, 0));
  EXPECT_EQ(forced->lease().end_reason, lease::EndReason::forced);
}

TEST_F(LeaseRoutes, ADetachedLeaseIsRenewed) {
  const auto lease =
      held(R"({"id":"night-of-many-leases","binding":"detached","ttl_s":60})", process(10));
  const std::string path = "/api/gpu/leases/night-of-many-leases/renew";
  const auto renewed = post(path, R"({"ttl_s":3600,"fence":1})", process(10));
  EXPECT_EQ(renewed->status(), 200) << renewed->text();
  EXPECT_GT(renewed->lease().until, lease.until);
  EXPECT_EQ(post(path, R"({"ttl_s":1})", process(10))->status(), 400);
  EXPECT_EQ(post(path, "{}", process(10))->status(), 400);
  EXPECT_EQ(post(path, R"({"ttl_s":60,"fence":9})", process(10))->status(), 409);
  EXPECT_EQ(post(path, R"({"ttl_s":60})", process(11, kBob))->status(), 403);
}

TEST_F(LeaseRoutes, AProcessIsCountedToALease) {
  held(R"({"id":"train-1-of-many-leases","binding":"run"})", process(10));
  process(20);
  world_.observer.running.at(20).identity.parent = 10;
  process(21, kBob);
  const std::string path = "/api/gpu/leases/train-1-of-many-leases/processes";
  EXPECT_EQ(post(path, R"({"pid":20,"fence":1})", process(10))->status(), 200);
  EXPECT_EQ(world_.leases->find("train-1-of-many-leases")->processes.size(), 2U);
  EXPECT_EQ(post(path, R"({"pid":21})", process(10))->status(), 403);
  EXPECT_EQ(post(path, R"({"pid":99})", process(10))->status(), 404);
  EXPECT_EQ(post(path, R"({"pid":0})", process(10))->status(), 400);
  EXPECT_EQ(post(path, R"({"pid":-1})", process(10))->status(), 400);
}

TEST_F(LeaseRoutes, UnleasedProcessIsAdopted) {
  process(20);
  world_.observer.running.at(20).gpus = {"GPU-1"};
  world_.leases->on_processes();
  world_.loop.run_posted();
  const auto queue = json::from_json<protocol::Queue>(get("/api/gpu/queue", process(10))->text());
  ASSERT_TRUE(queue) << queue.error().message;
  ASSERT_EQ(queue->squatters.size(), 1U);
  EXPECT_EQ(queue->squatters[0].pid, 20U);
  EXPECT_EQ(queue->squatters[0].index, 1U);
  EXPECT_EQ(queue->squatters[0].resolve, "gpuyard lease adopt --pid 20");
  ASSERT_EQ(queue->withheld.size(), 1U);
  EXPECT_EQ(queue->withheld[0].why, "squatted");
  EXPECT_EQ(post("/api/gpu/leases/adopt", R"({"pid":20})", process(11, kBob))->status(), 403);
  const auto adopted = post("/api/gpu/leases/adopt", R"({"pid":20,"note":"old"})", process(10));
  EXPECT_EQ(adopted->status(), 200) << adopted->text();
  EXPECT_EQ(adopted->lease().pid, 20U);
  EXPECT_EQ(adopted->lease().gpus.at(0).index, 1U);
}

TEST_F(LeaseRoutes, MutatedBodyIsAnsweredWithoutLeakedLeases) {
  const std::string whole =
      R"({"id":"x-of-many-leases","gpus":2,"min_free_bytes":1,"model":"h","among":[0,"GPU-1"],"max_time_s":6.5,)"
      R"("wait_s":0,"binding":"detached","ttl_s":60,"note":"n","answer_within_s":0})";
  const std::vector<std::string> pieces = {"null", "-1",   "1e308", "[]",
                                           "{}",   "\"\"", "true",  "\\u0000"};
  std::mt19937 random(1);
  const auto below = [&](std::size_t end) { return random() % end; };
  for (int i = 0; i < 2000; ++i) {
    std::string body = whole;
    for (auto changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t at = below(body.size());
      const std::string piece = below(2) == 0 ? pieces[below(pieces.size())] : std::string();
      body.replace(at, below(8), piece);
    }
    const auto call = claim(body, process(10));
    ASSERT_TRUE(call->is_answered()) << body;
    const int status = call->status();
    EXPECT_TRUE(status == 200 || status == 400 || status == 404 || status == 409) << status << body;
    if (status == 200) del(kLeases + ("/" + call->lease().id), process(10));
    pass(milliseconds(500));
  }
  EXPECT_EQ(world_.leases->waiting_claim_count(), 0U);
  EXPECT_FALSE(world_.leases->is_leased("GPU-0") || world_.leases->is_leased("GPU-1"));
}

}  // namespace

namespace {

using ::testing::HasSubstr;
using usage::UsageGrouping;
using usage::UsageQuery;
using usage::UsageReport;

// The usage route as its clients see it. The tests of the lease room check the counts.
class UsageRoute : public Routes {
 protected:
  UsageRoute() {
    UsageReport answer;
    answer.totals = {{"1000", 1000, 7200, 7200, 720'000'000, 0, 50.0, 1, 2}};
    use_archive_.answer = answer;
  }
  http::Response get(std::vector<std::pair<std::string, std::string>> query = {},
                     const std::string& accept = "") {
    http::Request request;
    request.method = http::Method::get;
    request.path = "/api/gpu/usage";
    request.query = std::move(query);
    if (!accept.empty()) request.headers.push_back({"Accept", accept});
    http::Response answer;
    router_.handle(std::move(request),
                   http::Reply([&](http::Response sent) { answer = std::move(sent); }));
    loop_.run_posted();
    return answer;
  }
  usage::Day days_ago(int days) {
    return std::chrono::floor<std::chrono::days>(loop_.wall()) - std::chrono::days(days);
  }
};

TEST_F(UsageRoute, DefaultsToLastWeekByUser) {
  const auto answer = get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(use_archive_.asked, (UsageQuery{UsageGrouping::user, days_ago(7), false}));
  const auto body = boost::json::parse(*answer.body);
  EXPECT_EQ(body.at("by"), "user");
  EXPECT_EQ(body.at_pointer("/rows/0/key"), "1000");
  EXPECT_EQ(body.at_pointer("/rows/0/gpu_hours").to_number<double>(), 2);
  EXPECT_EQ(body.at_pointer("/rows/0/energy_kwh").to_number<double>(), 0.2);
  EXPECT_TRUE(body.at_pointer("/unleased/energy_kwh").is_null());
  EXPECT_EQ(get({{"by", "gpu"}, {"since_s", "0"}}).status, 200);
  EXPECT_EQ(use_archive_.asked, (UsageQuery{UsageGrouping::gpu, days_ago(0), false}));
  EXPECT_EQ(get({{"by", "day"}, {"since_s", "34560000"}}).status, 200);
  EXPECT_EQ(use_archive_.asked, (UsageQuery{UsageGrouping::day, days_ago(400), false}));
}

TEST_F(UsageRoute, InvalidParameterIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"by", "colour"},   {"since_s", "-1"}, {"since_s", "34560001"},
      {"since_s", "nan"}, {"format", "xml"}, {"until", "1"}};
  for (const auto& one : wrong) {
    const auto answer = get({one});
    EXPECT_EQ(answer.status, 400) << one.first;
    EXPECT_THAT(*answer.body, HasSubstr(one.first));
  }
  EXPECT_FALSE(use_archive_.asked);
}

TEST_F(UsageRoute, UserGroupingResolvesNames) {
  std::function<void()> learned;
  bool known = false;
  context_.users.name_of = [&](std::uint32_t) {
    return known ? std::optional<std::string>("alice") : std::nullopt;
  };
  context_.users.resolve = [&](const std::vector<std::uint32_t>& uids,
                               const std::function<void()>& done) {
    EXPECT_EQ(uids, std::vector<std::uint32_t>{1000});
    known = true;
    done();
  };
  EXPECT_THAT(*get().body, HasSubstr(R"("key":"alice","uid":1000)"));
  known = false;
  EXPECT_THAT(*get({{"by", "gpu"}}).body, HasSubstr(R"("key":"1000")"));
}

TEST_F(UsageRoute, FormatOrAcceptSelectsCsv) {
  for (const auto& answer : {get({{"format", "csv"}}), get({}, "text/csv")}) {
    EXPECT_EQ(answer.content_type, "text/csv; charset=utf-8");
    EXPECT_EQ(*answer.body, std::string(protocol::kUsageCsvHeader) +
                                "1000,1000,2,0.2,false,50,1,2,0,,,\n,,0,,false,,,0,0,,,\n");
  }
}

TEST_F(UsageRoute, StorageNotesAreReported) {
  use_archive_.said = {"usage.db was corrupt; it was replaced with a new one"};
  EXPECT_THAT(*get().body,
              HasSubstr(R"("notes":["usage.db was corrupt; it was replaced with a new one"])"));
}

TEST_F(UsageRoute, UnreadableRecordsAreReported) {
  use_archive_.answer = Error{Errc::unavailable, "usage.db: disk full"};
  const auto answer = get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(*answer.body, HasSubstr("disk full"));
}

}  // namespace
}  // namespace gpuyard::api
