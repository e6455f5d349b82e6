// The audit lines of calls: one for each change, and none if nothing has changed.
#include <map>
#include <set>

#include <fmt/format.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using control::AuditEntry;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Source = AuditEntry::Source;

class AuditRoutes : public LeaseRoutes {
 protected:
  AuditRoutes() {
    for (const lease::PoolGpu& gpu : world_.fleet) settings_.add(gpu.info.id);
    control_.start_driver_host();
    messenger_.sinks.clear();
    alert_service_.start();
    world_.loop.run_posted();
  }

  http::Peer root() { return process(77, 0); }
  http::Peer member() {
    http::Peer peer = process(78, kBob);
    peer.groups = {600};
    return peer;
  }
  Calls call(std::string_view method, const std::string& path, const std::string& body,
             http::Peer peer) {
    const auto how = method == "PUT"      ? http::Method::put
                     : method == "DELETE" ? http::Method::del
                                          : http::Method::post;
    Calls one = ask(how, path, body, std::move(peer));
    for (int i = 0; i < 3; ++i) {
      control_.settle();
      world_.loop.run_posted();
    }
    return one;
  }
  // Returns the lines that were written since the last call.
  std::vector<AuditEntry> lines() {
    control_.settle();
    return std::exchange(settings_.audit, {});
  }
  std::vector<std::string> actions() {
    std::vector<std::string> all;
    for (const AuditEntry& one : lines()) {
      all.push_back(fmt::format("{}{}{}", one.action, one.gpu.empty() ? "" : " of ", one.gpu));
    }
    return all;
  }
  void make_hot() {
    for (int i = 0; i < 12; ++i) {
      world_.loop.advance(seconds(1));
      alert_service_.tick(andon::at_temperature(91));
    }
    world_.loop.run_posted();
  }
  void withhold(const char* word, const char* text) {
    world_.fleet[1].withheld = word;
    world_.fleet[1].text = text;
    world_.leases->on_gpus(world_.fleet);
    world_.loop.run_posted();
  }
};

struct Example {
  std::string path;
  std::string body = {};
};

// Each route that needs the scope control or more, with a call of it that changes something. They
// are called in the order of the table.
const std::map<std::string, Example> kChanges = {
    {"POST /api/gpu/alerts/{alert}/acknowledge",
     {"/api/gpu/alerts/1/acknowledge", R"({"note":"on it"})"}},
    {"POST /api/gpu/alerts/test", {"/api/gpu/alerts/test", R"({"sink":"ops"})"}},
    {"POST /api/gpu/silences", {"/api/gpu/silences", R"({"for_s":60,"rule":"hot"})"}},
    {"DELETE /api/gpu/silences/{silence}", {"/api/gpu/silences/{}"}},
    {"PUT /api/gpu/manage/{id}/power-limit",
     {"/api/gpu/manage/0/power-limit", R"({"power_limit_mw":300000})"}},
    {"DELETE /api/gpu/manage/{id}/power-limit", {"/api/gpu/manage/0/power-limit"}},
    {"PUT /api/gpu/manage/{id}/gpu-clocks",
     {"/api/gpu/manage/0/gpu-clocks", R"({"min_clock_mhz":900,"max_clock_mhz":900})"}},
    {"DELETE /api/gpu/manage/{id}/gpu-clocks", {"/api/gpu/manage/0/gpu-clocks"}},
    {"PUT /api/gpu/manage/{id}/memory-clocks",
     {"/api/gpu/manage/0/memory-clocks", R"({"min_clock_mhz":900,"max_clock_mhz":900})"}},
    {"DELETE /api/gpu/manage/{id}/memory-clocks", {"/api/gpu/manage/0/memory-clocks"}},
    {"PUT /api/gpu/manage/{id}/persistence",
     {"/api/gpu/manage/0/persistence", R"({"enabled":true})"}},
    {"DELETE /api/gpu/manage/{id}/persistence", {"/api/gpu/manage/0/persistence"}},
    {"PUT /api/gpu/manage/{id}/compute-mode",
     {"/api/gpu/manage/0/compute-mode", R"({"compute_mode":"prohibited"})"}},
    {"DELETE /api/gpu/manage/{id}/compute-mode", {"/api/gpu/manage/0/compute-mode"}},
    {"PUT /api/gpu/manage/{id}/ecc", {"/api/gpu/manage/0/ecc", R"({"enabled":false})"}},
    {"DELETE /api/gpu/manage/{id}/ecc", {"/api/gpu/manage/0/ecc"}},
    {"POST /api/gpu/manage/{id}/restore", {"/api/gpu/manage/0/restore"}},
    {"POST /api/gpu/manage/{id}/clear-ecc",
     {"/api/gpu/manage/0/clear-ecc", R"({"counter":"volatile"})"}},
    {"POST /api/gpu/manage/{id}/reset", {"/api/gpu/manage/0/reset"}},
    {"PUT /api/gpu/manage/{id}/cordon", {"/api/gpu/manage/0/cordon", R"({"reason":"fan"})"}},
    {"DELETE /api/gpu/manage/{id}/cordon", {"/api/gpu/manage/0/cordon"}},
    {"PUT /api/gpu/manage/{id}/override", {"/api/gpu/manage/1/override", R"({"reason":"a test"})"}},
    {"POST /api/gpu/slurm/check", {"/api/gpu/slurm/check"}},
    {"DELETE /api/gpu/slurm", {"/api/gpu/slurm"}},
    {"DELETE /api/gpu/pods", {"/api/gpu/pods"}},
};

TEST_F(AuditRoutes, ControlChangesAreAudited) {
  make_hot();
  withhold("unknown", "its state is not known");
  for (const BoundRoute& route : all_routes()) {
    const auto& info = route.info;
    if (info.method == "GET" || info.scope < Scope::control) continue;
    const std::string name = fmt::format("{} {}", info.method, info.pattern);
    if (info.audit == protocol::AuditWriter::none) {
      EXPECT_THAT(name, testing::AnyOf(HasSubstr("/api/gpu/slurm/jobs/{job}"),
                                       HasSubstr("/api/gpu/pods/{pod_namespace}/{pod}"),
                                       HasSubstr("/api/gpu/kubernetes/plugin")));
      continue;
    }
    const auto example = kChanges.find(name);
    ASSERT_NE(example, kChanges.end()) << name << " has no call here that changes something";
    auto [path, body] = example->second;
    if (info.pattern.ends_with("/restore")) {
      call("PUT", "/api/gpu/manage/0/power-limit", R"({"power_limit_mw":300000})", root());
    }
    if (info.pattern == "/api/gpu/pods") {
      world_.leases->accept_report(lease::Allocator::kubernetes);
    }
    if (const auto all = alert_service_.silences().all(); path.ends_with("{}") && !all.empty()) {
      path.replace(path.size() - 2, 2, all.front().id);
    }
    lines();
    const Calls answer = call(info.method, path, body, root());
    EXPECT_LT(answer->status(), 300) << name << ": " << answer->text();
    const auto written = lines();
    ASSERT_EQ(written.size(), 1U) << name;
    EXPECT_EQ(written[0].by, "uid 0") << name;
    EXPECT_EQ(written[0].source, Source::administrator) << name;
    const bool of_gpu = info.pattern.find("{id}") != info.pattern.npos;
    EXPECT_EQ(written[0].gpu.empty(), !of_gpu && !path.ends_with("acknowledge")) << name;
    EXPECT_EQ(written[0].index.has_value(), !written[0].gpu.empty()) << name;
    EXPECT_THAT(written[0].action, testing::Not(HasSubstr("/api/"))) << name;
  }
}

TEST_F(AuditRoutes, ChangingRoutesAreAuditedByDefault) {
  constexpr protocol::Route<protocol::NoParams, protocol::NoParams> kNew{
      {"POST", "/api/gpu/new", "GPU", Scope::control, protocol::GpuScope::none,
       "Changes a thing."}};
  EXPECT_TRUE(kNew.is_audited());
  for (const BoundRoute& route : all_routes()) {
    const auto& info = route.info;
    const bool changes = info.method != "GET" && info.scope >= Scope::control;
    EXPECT_EQ(info.is_audited(), changes && info.audit == protocol::AuditWriter::router)
        << info.pattern;
    const bool of_control = changes && info.tag == "Control";
    EXPECT_EQ(info.audit == protocol::AuditWriter::control, of_control) << info.pattern;
  }
}

TEST_F(AuditRoutes, RepeatedChangeIsNotAudited) {
  const std::string cordon = R"({"reason":"fan"})";
  call("PUT", "/api/gpu/manage/0/cordon", cordon, member());
  EXPECT_THAT(actions(), ElementsAre("cordon: fan of GPU-0"));
  EXPECT_EQ(call("PUT", "/api/gpu/manage/0/cordon", cordon, member())->status(), 200);
  EXPECT_THAT(actions(), IsEmpty());
  call("PUT", "/api/gpu/manage/all/cordon", cordon, member());
  EXPECT_THAT(actions(), ElementsAre("cordon: fan of GPU-1"));
  call("DELETE", "/api/gpu/manage/all/cordon", "", member());
  EXPECT_THAT(actions(), ElementsAre("uncordon of GPU-0", "uncordon of GPU-1"));
  call("DELETE", "/api/gpu/manage/all/cordon", "", member());
  EXPECT_THAT(actions(), IsEmpty());
  make_hot();
  for (int i = 0; i < 2; ++i) call("POST", "/api/gpu/alerts/1/acknowledge", "", member());
  EXPECT_THAT(actions(), ElementsAre("acknowledge alert 1 (hot) of GPU-0"));
  EXPECT_EQ(call("DELETE", "/api/gpu/silences/none", "", member())->status(), 404);
  EXPECT_THAT(actions(), IsEmpty());
}

TEST_F(AuditRoutes, FirstSlurmCheckIsAuditedOnce) {
  for (int i = 0; i < 3; ++i) call("POST", "/api/gpu/slurm/check", "", root());
  EXPECT_THAT(actions(), ElementsAre("leave the GPUs to Slurm"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(call("DELETE", "/api/gpu/slurm", "", root())->status(), 200);
  }
  EXPECT_THAT(actions(), ElementsAre("lease the GPUs again, without Slurm"));
}

TEST_F(AuditRoutes, NameTheUserOfAnEndedSilence) {
  const auto made = call("POST", "/api/gpu/silences",
                         R"({"for_s":60,"rule":"hot","gpu":"0","comment":"a test"})", member());
  const auto silence = json::from_json<protocol::Silence>(made->text());
  ASSERT_TRUE(silence) << made->text();
  EXPECT_THAT(lines().at(0).action, testing::MatchesRegex("silence hot until .*Z: a test"));
  call("DELETE", "/api/gpu/silences/" + silence->id, "", root());
  EXPECT_THAT(actions(), ElementsAre("end the silence of hot by uid 1001 of GPU-0"));
}

TEST_F(AuditRoutes, ChangeToAnotherUsersLeaseIsAudited) {
  const auto lease =
      held(R"({"id":"lease-of-alice-one","gpus":2,"binding":"detached","ttl_s":600})", process(10));
  const std::string path = "/api/gpu/leases/lease-of-alice-one";
  EXPECT_EQ(call("POST", path + "/renew", R"({"ttl_s":900})", process(10))->status(), 200);
  EXPECT_THAT(actions(), IsEmpty()) << "the records of leases have the holder's changes";
  EXPECT_EQ(call("POST", path + "/renew", R"({"ttl_s":1800})", root())->status(), 200);
  EXPECT_THAT(actions(), ElementsAre("renew lease lease-of-alice-one of uid 1000 of GPU-0",
                                     "renew lease lease-of-alice-one of uid 1000 of GPU-1"));
  EXPECT_EQ(call("DELETE", path + "?force=true&reason=repair", "", root())->status(), 200);
  const auto forced = lines();
  ASSERT_EQ(forced.size(), 2U);
  EXPECT_EQ(forced[0].action, "release lease lease-of-alice-one of uid 1000: repair");
  EXPECT_TRUE(forced[0].forced);
  EXPECT_EQ(forced[0].source, Source::administrator);
}

TEST_F(AuditRoutes, KeepClassesOfRightsApart) {
  call("PUT", "/api/gpu/manage/0/cordon", R"({"reason":"fan"})", member());
  call("PUT", "/api/gpu/manage/0/power-limit", R"({"power_limit_mw":300000})", member());
  call("POST", "/api/gpu/manage/0/reset", "", member());
  for (const AuditEntry& one : lines()) {
    EXPECT_EQ(one.source, Source::user) << one.action;
    EXPECT_EQ(one.quota_group, "uid 1001") << one.action;
  }
  call("PUT", "/api/gpu/manage/0/cordon", R"({"reason":"fan"})", process(10));
  const auto refused = lines();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].source, Source::refused);
  call("POST", "/api/gpu/tokens", R"({"name":"t","scope":"read"})", process(10));
  const auto token = lines();
  ASSERT_EQ(token.size(), 1U);
  EXPECT_EQ(token[0].source, Source::ordinary);
}

TEST_F(AuditRoutes, LoopbackAddressesShareOneQuotaGroup) {
  token_ = auth::TokenText::draw()->text();
  const auto show = [&](const std::string& group) {
    http::Peer peer;
    peer.encrypted = true;
    peer.quota_group = group;
    call("POST", "/api/gpu/leases", "{}", peer);
  };
  show("127.9.9.9");
  for (int i = 0; i < 100; ++i) show(fmt::format("127.0.1.{}", i));
  show("::");
  const auto local = lines();
  ASSERT_EQ(local.size(), 1U);
  EXPECT_EQ(local[0].by, "127.9.9.9");
  EXPECT_EQ(local[0].quota_group, "this machine over TCP");
  EXPECT_EQ(local[0].source, Source::refused_over_tcp);
  for (int i = 0; i < 100; ++i) show(fmt::format("2001:db8:0:{:x}::", i));
  EXPECT_EQ(lines().size(), control::AuditTrail::kMaxAddresses);
  pass(std::chrono::minutes(1));
  control_.pass(std::chrono::minutes(1));
  show("2001:db8:1::");
  const auto after = lines();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_THAT(*after[0].error, HasSubstr("84 earlier refusals were not recorded"));
}

}  // namespace
}  // namespace gpuyard::api
