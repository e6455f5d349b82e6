// Right after a start, stored state is not read yet. No answer may claim that there is none.
#include "faces/api/stored_state.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using testing::HasSubstr;

class LoadingState : public Routes {
 protected:
  LoadingState() : Routes(2) {
    world_.leases.emplace(loop_, world_.observer, world_.disk, world_.policy, "boot-1");
    world_.leases->on_gpus(world_.fleet);
    world_.leases->start();  // its disk answers in the loop's next turn
  }
  void read_all() {
    tokens_.start();
    alert_service_.start();
    meter_.start();
    energy_archive_.answer_load(energy::LedgerState{});
    loop_.run_posted();
  }

  std::optional<http::Response> ask(const protocol::RouteInfo& route) {
    http::Request request;
    request.method = route.method == "GET"    ? http::Method::get
                     : route.method == "POST" ? http::Method::post
                     : route.method == "PUT"  ? http::Method::put
                                              : http::Method::del;
    // Fills each name in the path with 1, which is not a lease, a token or an alert.
    std::string path(route.pattern);
    for (std::size_t at = path.find('{'); at != path.npos; at = path.find('{')) {
      path.replace(at, path.find('}') - at + 1, "1");
    }
    request.path = path;
    request.body = "{}";
    request.peer = local_user(0);
    const auto answer = std::make_shared<std::optional<http::Response>>();
    router_.handle(std::move(request),
                   http::Reply([answer](http::Response sent) { *answer = std::move(sent); }));
    return *answer;
  }
};

bool is_put_off(const std::optional<http::Response>& answer) {
  return answer && answer->status == 503 &&
         http::find_header(answer->headers, "Retry-After") == "1" &&
         http::find_header(answer->headers, "X-Gpuyard-Reading") == "true" &&
         answer->body->find("still being") != std::string::npos;
}

// Control's tables are read at once in these tests.
bool is_kept_elsewhere(const protocol::RouteInfo& route) {
  static const std::set<std::string_view> kOfThisLife = {
      "/api/gpu/rules", "/api/gpu/sinks", "/api/gpu/alerts/test", "/api/gpu/kubernetes/plugin"};
  static const std::set<std::string_view> kTags = {"Alerts", "Energy",     "Leases",
                                                   "Slurm",  "Kubernetes", "Tokens"};
  return route.pattern == "/api/gpu/brief" || route.pattern == "/api/gpu/verdict" ||
         (kTags.contains(route.tag) && !kOfThisLife.contains(route.pattern));
}

TEST_F(LoadingState, RoutesAboutStoredStateAnswer503) {
  int put_off = 0;
  for (const BoundRoute& route : all_routes()) {
    SCOPED_TRACE(std::string(route.info.method) + " " + std::string(route.info.pattern));
    const auto answer = ask(route.info);
    EXPECT_EQ(is_put_off(answer), is_kept_elsewhere(route.info));
    put_off += is_put_off(answer) ? 1 : 0;
  }
  EXPECT_GE(put_off, 30);
  read_all();
  for (const BoundRoute& route : all_routes()) {
    EXPECT_FALSE(is_put_off(ask(route.info))) << route.info.pattern;
  }
}

TEST_F(LoadingState, AFailingDiskIsNotReportedAsReading) {
  world_.disk.fails = Error{Errc::unavailable, "no such disk"};
  loop_.run_posted();
  const auto answer = ask(protocol::kLeases);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_THAT(*answer->body, HasSubstr("no such disk"));
  EXPECT_EQ(http::find_header(answer->headers, "X-Gpuyard-Reading"), "");
}

// The stored alerts may quarantine a GPU that reads well.
TEST_F(LoadingState, UnreadableAlertsGiveNoVerdict) {
  alert_archive_.failing = true;
  read_all();
  loop_.advance(std::chrono::seconds(10));  // alerts go on without them
  EXPECT_EQ(ask(protocol::kAlerts)->status, 200);
  const auto answer = ask(protocol::kVerdict);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_THAT(*answer->body, HasSubstr("the stored alerts cannot be read"));
}

TEST_F(LeaseRoutes, HeldLeaseIsFoundAfterLoading) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  const http::Peer holder = process(10);
  world_.leases.emplace(loop_, world_.observer, world_.disk, world_.policy, "boot-1");
  world_.leases->on_gpus(world_.fleet);
  world_.leases->start();
  const std::string path = "/api/gpu/leases/train-1-of-many-leases";
  const auto early = del(path, holder);  // its posted tasks run after its answer
  EXPECT_EQ(early->status(), 503);
  EXPECT_THAT(early->message(), HasSubstr("still being checked"));
  EXPECT_EQ(del(path, holder)->status(), 200);
}

}  // namespace
}  // namespace gpuyard::api
