// Tests authority with the matrix of all callers and all routes, which is made of its two tables;
// and what a token sees of the GPUs, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/record.h"
#include "base/text.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using protocol::GpuScope;
using std::chrono::minutes;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLeaseSocket = "/run/gpuyard/lease.sock";
constexpr std::uint32_t kMember = 1500;  // of the group that may control

class TokenRoutes : public LeaseRoutes {
 protected:
  TokenRoutes() {
    context_.users.check_group_member = [](std::uint32_t uid, const auto& on_done) {
      on_done(uid == kMember);
    };
  }

  std::string token(Scope scope, std::optional<std::uint32_t> uid = kAlice,
                    std::vector<DeviceId> gpus = {}) {
    const auto one = made({.name = std::to_string(++number_),
                           .uid = uid,
                           .scope = scope,
                           .gpus = std::move(gpus),
                           .lifetime = minutes(60),
                           .made_by = "uid 0",
                           .by_admin = true});
    id_ = one.token.id;
    return one.text;
  }
  DeviceId gpu(std::size_t at) const { return world_.fleet.at(at).info.id; }

  int number_ = 0;
  std::string id_;  // of the token made last
};

// One caller of the matrix.
struct Caller {
  std::string name;
  http::Peer peer;
  std::string token;        // "": none
  Scope scope;              // that it has by the grants
  bool restricted = false;  // to some GPUs
};

class Matrix : public TokenRoutes {
 protected:
  Matrix() {
    Authority authority(kDaemonUid, "gpuyard", 600);
    authority.lease_socket = kLeaseSocket;
    router_.emplace(context_, authority);
  }

  static http::Peer peer_over(Transport way, std::uint32_t uid, bool member) {
    if (way == Transport::tls) return over_tls();
    if (way == Transport::plain_tcp) return over_tcp();
    http::Peer peer = local_user(uid);
    peer.listener = way == Transport::lease_socket ? kLeaseSocket : "/run/gpuyard/gpuyard.sock";
    if (member) peer.groups = {600};
    return peer;
  }

  // Returns what kScopeGrants says, found in another way than in the code.
  static Scope granted(Transport way, CallerClass who) {
    for (const ScopeGrant& grant : kScopeGrants) {
      if (grant.transport == way && grant.caller == who) return grant.max_scope;
    }
    return Scope::open;
  }

  std::vector<Caller> callers() {
    struct User {
      CallerClass who;
      std::uint32_t uid;
    };
    constexpr std::array kUsers = {User{CallerClass::user, kAlice},
                                   User{CallerClass::member, kMember}, User{CallerClass::admin, 0},
                                   User{CallerClass::admin, kDaemonUid}};
    std::vector<Caller> all = {
        {"anonymous over TCP", over_tcp(), "",
         granted(Transport::plain_tcp, CallerClass::anonymous)},
        {"anonymous over TLS", over_tls(), "", granted(Transport::tls, CallerClass::anonymous)}};
    for (const Transport way : {Transport::socket, Transport::lease_socket}) {
      for (const User& user : kUsers) {
        const bool member = user.who == CallerClass::member;
        all.push_back({fmt::format("uid {} on {}", user.uid, static_cast<int>(way)),
                       peer_over(way, user.uid, member), "", granted(way, user.who)});
      }
    }
    for (const Transport way : {Transport::socket, Transport::lease_socket, Transport::tls}) {
      for (const User& user : kUsers) {
        for (const Scope scope :
             {Scope::metrics, Scope::read, Scope::lease, Scope::control, Scope::admin}) {
          for (const bool restricted : {false, true}) {
            const auto gpus = restricted ? std::vector{gpu(0)} : std::vector<DeviceId>{};
            // A stranger shows the token: on a socket, too, only the token counts.
            all.push_back({fmt::format("token {} of uid {} on {}{}", enum_name(scope), user.uid,
                                       static_cast<int>(way), restricted ? ", GPU 0" : ""),
                           peer_over(way, 4321, false), token(scope, user.uid, gpus),
                           std::min(scope, granted(way, user.who)), restricted});
          }
        }
      }
      all.push_back(
          {"service", peer_over(way, 4321, false), token(Scope::read, std::nullopt), Scope::read});
      all.push_back({"service with too much", peer_over(way, 4321, false),
                     token(Scope::admin, std::nullopt), Scope::read});
    }
    return all;
  }

  // Tests the refusals before the handler: validation, which comes after authority, refuses an
  // unknown parameter.
  int outcome(const Caller& caller, const protocol::RouteInfo& route) {
    http::Request request;
    request.method = route.method == "GET"    ? http::Method::get
                     : route.method == "PUT"  ? http::Method::put
                     : route.method == "POST" ? http::Method::post
                                              : http::Method::del;
    std::string_view rest = route.pattern;
    while (!rest.empty()) {
      const std::string_view segment = take_until('/', rest);
      if (segment.empty()) continue;
      request.path += '/' + std::string(segment.front() == '{' ? "0" : segment);
    }
    if (request.path.empty()) request.path = "/";
    request.query.emplace_back("no_such_parameter", "1");
    if (!caller.token.empty()) {
      request.headers.push_back({"Authorization", "Bearer " + caller.token});
    }
    request.peer = caller.peer;
    std::optional<http::Response> answer;
    router_->handle(std::move(request),
                    http::Reply([&](const http::Response& sent) { answer = sent; }));
    loop_.run_posted();
    EXPECT_TRUE(answer) << caller.name << ": " << route.pattern;
    return answer ? answer->status : 0;
  }

  static int expected(const Caller& caller, const protocol::RouteInfo& route) {
    const Transport way = caller.peer.encrypted                       ? Transport::tls
                          : caller.peer.kind == http::Peer::Kind::tcp ? Transport::plain_tcp
                          : caller.peer.listener == kLeaseSocket      ? Transport::lease_socket
                                                                      : Transport::socket;
    const int refused = way == Transport::tls && caller.token.empty() ? 401 : 403;
    const bool holder = route.for_holders && caller.scope >= Scope::lease;
    if (route.local && (way != Transport::socket || !caller.token.empty())) return refused;
    if (caller.scope < route.scope && !holder) return refused;
    if (caller.restricted && route.gpus == GpuScope::whole) return refused;
    return route.ignores_query ? 200 : 400;
  }

  std::optional<Router> router_;
};

TEST_F(Matrix, EveryCallerAndRouteMatchesTables) {
  std::size_t cells = 0;
  std::size_t refused = 0;
  for (const Caller& caller : callers()) {
    for (const BoundRoute& route : all_routes()) {
      ++cells;
      const int wanted = expected(caller, route.info);
      refused += wanted <= 400 ? 0 : 1;
      EXPECT_EQ(outcome(caller, route.info), wanted)
          << caller.name << ": " << route.info.method << " " << route.info.pattern;
    }
  }
  RecordProperty("cells", static_cast<int>(cells));
  EXPECT_GT(cells, 8000U);
  EXPECT_GT(refused, 2000U);
  EXPECT_LT(refused, cells - 2000);
}

TEST_F(Matrix, AnonymousTlsCallerGetsConfiguredScope) {
  Authority authority(kDaemonUid);
  const auto allowed = [&](Scope anonymous, const protocol::RouteInfo& route) {
    authority.anonymous = anonymous;
    return bool(authorise(principal_of(over_tls(), authority), route, authority));
  };
  EXPECT_TRUE(allowed(Scope::open, protocol::kHealth));
  EXPECT_FALSE(allowed(Scope::open, protocol::kMetrics));
  EXPECT_TRUE(allowed(Scope::metrics, protocol::kMetrics));
  EXPECT_FALSE(allowed(Scope::metrics, protocol::kSnapshot));
  EXPECT_TRUE(allowed(Scope::read, protocol::kSnapshot));
  EXPECT_FALSE(allowed(Scope::read, protocol::kClaim));
}

TEST_F(TokenRoutes, PlainTcpTokenIsRefusedAuditedAndFlagged) {
  token_ = token(Scope::lease);
  http::Peer peer = over_tcp();
  peer.quota_group = "192.0.2.7";
  const Calls call = get("/api/gpu/leases", peer);
  EXPECT_EQ(call->status(), 403);
  EXPECT_THAT(call->message(), HasSubstr("without TLS"));
  EXPECT_TRUE(tokens_.find(id_)->in_clear);
  control_.loop.advance(std::chrono::seconds(1));
  const auto& audit = settings_.audit;
  ASSERT_FALSE(audit.empty());
  EXPECT_EQ(audit.back().by, "192.0.2.7");
  EXPECT_EQ(audit.back().action, "invalid token");
}

TEST_F(TokenRoutes, InvalidTokenIs401WithChallenge) {
  token_ = auth::TokenText::draw()->text();
  const Calls call = get("/api/gpu/leases", over_tls());
  EXPECT_EQ(call->status(), 401);
  EXPECT_EQ(http::find_header(call->answer->headers, "WWW-Authenticate"),
            "Bearer realm=\"gpuyard\"");
  EXPECT_THAT(call->text(), Not(HasSubstr(token_)));
}

TEST_F(TokenRoutes, FiveFailuresDelayInvalidTokensOnly) {
  const std::string good = token(Scope::read);
  token_ = auth::TokenText::draw()->text();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get("/api/gpu/leases", over_tls())->status(), 401);
  const Calls late = get("/api/gpu/leases", over_tls());
  EXPECT_FALSE(late->is_answered());
  token_ = good;
  EXPECT_EQ(get("/api/gpu/leases", over_tls())->status(), 200);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(late->status(), 401);
}

TEST_F(TokenRoutes, MoreThan64WaitingAre429) {
  token_ = "gpy_mistyped";
  std::vector<Calls> calls;
  for (int i = 0; i < 5 + 64 + 1; ++i) calls.push_back(get("/health", over_tls()));
  EXPECT_EQ(calls.back()->status(), 429);
  EXPECT_EQ(http::find_header(calls.back()->answer->headers, "Retry-After"), "5");
}

TEST_F(TokenRoutes, UnauthorizedBrowserIsRedirectedToLogin) {
  const auto ask = [&](const std::string& path, const std::string& accept) {
    http::Request request;
    request.path = path;
    request.headers.push_back({"Accept", accept});
    request.peer = over_tls();
    std::optional<http::Response> answer;
    router_.handle(std::move(request),
                   http::Reply([&](const http::Response& sent) { answer = sent; }));
    return answer.value_or(http::Response());
  };
  const http::Response front = ask("/", "text/html");
  EXPECT_EQ(front.status, 303);
  EXPECT_EQ(http::find_header(front.headers, "Location"), "/login");
  EXPECT_EQ(ask("/", "*/*").status, 401) << "for programs";
  EXPECT_EQ(ask("/login", "text/html").status, 200);
  EXPECT_EQ(ask("/gpu/3", "text/html").status, 200);
  EXPECT_EQ(ask("/gpu/../3", "text/html").status, 404);
  EXPECT_EQ(ask("/gpu/three", "text/html").status, 404);
}

TEST_F(TokenRoutes, AnotherKindOfAuthorizationIsNotUnderstood) {
  for (const char* field : {"Basic YWxpY2U6c2VjcmV0", "gpy_abc", "Bearer"}) {
    http::Request request;
    request.path = "/health";
    request.headers = {{"Authorization", field}};
    request.peer = over_tls();
    int status = 0;
    router_.handle(std::move(request),
                   http::Reply([&](const http::Response& sent) { status = sent.status; }));
    EXPECT_EQ(status, 400) << field;
  }
}

TEST_F(TokenRoutes, GpuLimitedTokenSeesOnlyNamedGpus) {
  token_ = token(Scope::lease, kAlice, {gpu(1)});
  EXPECT_THAT(get("/api/gpu/snapshot", over_tls())->text(), Not(HasSubstr(gpu(0))));
  EXPECT_THAT(get("/api/gpu/snapshot", over_tls())->text(), HasSubstr(gpu(1)));
  EXPECT_EQ(get("/api/gpu/devices/1", over_tls())->status(), 200);
  for (const char* path : {"/api/gpu/devices/0", "/api/gpu/devices/0/processes",
                           "/api/gpu/devices/0/history?metric=power_draw_w", "/api/gpu/manage/0",
                           "/api/gpu/stream/power?gpus=0"}) {
    EXPECT_EQ(get(path, over_tls())->status(), 404) << path;
  }
  const Calls whole = get("/metrics", over_tls());
  EXPECT_EQ(whole->status(), 403);
  EXPECT_THAT(whole->message(), HasSubstr("is limited to 1 of them"));
}

TEST_F(TokenRoutes, GpuLimitedTokenSeesOnlyOwnBottlenecks) {
  Snapshot snapshot = *telemetry_.latest();
  for (DeviceState& device : snapshot.devices) device.bottleneck.emplace();
  spells_.on_snapshot(snapshot);
  token_ = token(Scope::read, kAlice, {gpu(1)});
  const Calls own = get("/api/gpu/bottlenecks", over_tls());
  worker_.run_all();
  EXPECT_THAT(own->text(), ::testing::AllOf(HasSubstr(gpu(1)), Not(HasSubstr(gpu(0)))));
  EXPECT_EQ(get("/api/gpu/bottlenecks?gpus=0", over_tls())->status(), 404);
}

TEST_F(TokenRoutes, TokenClaimIsDetachedAndLimitedToGpus) {
  token_ = token(Scope::lease, kAlice, {gpu(1)});
  const Calls bound = claim("{}", over_tls());
  EXPECT_EQ(bound->status(), 403);
  EXPECT_THAT(bound->message(), HasSubstr("ssh HOST gpuyard run"));
  EXPECT_EQ(claim(R"({"binding":"detached","ttl_s":60,"among":[0]})", over_tls())->status(), 404);
  const auto lease = held(R"({"binding":"detached","ttl_s":60})", over_tls());
  EXPECT_EQ(lease.uid, kAlice);
  ASSERT_EQ(lease.gpus.size(), 1U);
  EXPECT_EQ(lease.gpus.front().uuid, gpu(1));
}

TEST_F(TokenRoutes, GpuLimitedTokenCannotUseOtherLeases) {
  world_.observer.start(70, kAlice);
  const auto other = held(R"({"among":[0]})", process(70));
  token_ = token(Scope::lease, kAlice, {gpu(1)});
  EXPECT_EQ(get("/api/gpu/leases/" + other.id, over_tls())->status(), 403);
  EXPECT_EQ(del("/api/gpu/leases/" + other.id, over_tls())->status(), 403);
  EXPECT_THAT(get("/api/gpu/leases", over_tls())->text(), Not(HasSubstr(other.id)));
  token_ = token(Scope::lease, kAlice, {gpu(0)});
  EXPECT_EQ(get("/api/gpu/leases/" + other.id, over_tls())->status(), 200);
  EXPECT_THAT(get("/api/gpu/leases", over_tls())->text(), HasSubstr(other.id));
}

TEST_F(TokenRoutes, NoProcessIsMeantFromAfar) {
  token_ = token(Scope::lease);
  EXPECT_EQ(post("/api/gpu/leases/adopt", R"({"pid":1})", over_tls())->status(), 403);
}

TEST_F(TokenRoutes, LeavingGroupRevokesTokensControlScope) {
  token_ = token(Scope::control, kMember);
  const auto cordon = [&] {
    return ask(http::Method::put, "/api/gpu/manage/0/cordon", R"({"reason":"fan"})", over_tls())
        ->status();
  };
  EXPECT_EQ(cordon(), 200);
  context_.users.check_group_member = [](std::uint32_t, const auto& on_done) { on_done(false); };
  EXPECT_EQ(cordon(), 403);
}

TEST_F(TokenRoutes, RevocationDuringGroupCheckRefusesRequest) {
  token_ = token(Scope::control, kMember);
  std::function<void(bool)> tell;
  context_.users.check_group_member = [&](std::uint32_t, const auto& on_done) { tell = on_done; };
  const auto cordon =
      ask(http::Method::put, "/api/gpu/manage/0/cordon", R"({"reason":"fan"})", over_tls());
  ASSERT_TRUE(tell);
  tokens_.revoke({id_}, "uid 0", [](const Result<void>&) {});
  tell(true);
  EXPECT_EQ(cordon->status(), 401);
  EXPECT_EQ(get("/api/gpu/queue", local_user(kAlice))->text().find("fan"), std::string::npos);
}

TEST_F(TokenRoutes, RevocationEndsStreamsAndRefusesWaitingRequests) {
  token_ = token(Scope::lease);
  const Calls stream = get("/api/gpu/events", over_tls());
  ASSERT_TRUE(stream->answer->stream);
  bool woken = false;
  stream->answer->stream->set_on_more([&] { woken = true; });
  while (stream->answer->stream->next()) {
  }
  EXPECT_FALSE(stream->answer->stream->is_over());
  held(R"({"gpus":2,"binding":"detached","ttl_s":60})", over_tls());
  const Calls waits = claim(R"({"gpus":2,"binding":"detached","ttl_s":60})", over_tls());
  EXPECT_FALSE(waits->is_answered());
  woken = false;
  tokens_.revoke({id_}, "uid 0", [](const Result<void>&) {});
  EXPECT_TRUE(woken);
  EXPECT_TRUE(stream->answer->stream->is_over());
  EXPECT_FALSE(stream->answer->stream->can_end());
  EXPECT_FALSE(stream->answer->stream->next());
  pass(minutes(1));
  EXPECT_EQ(waits->status(), 401);
}

TEST_F(TokenRoutes, UserManagesOwnTokensUpToOwnScope) {
  const auto create = [&](const std::string& body, std::uint32_t uid = kAlice) {
    return post("/api/gpu/tokens", body, local_user(uid));
  };
  const Calls made = create(R"({"name":"ci","scope":"lease","gpus":[1]})");
  ASSERT_EQ(made->status(), 201) << made->text();
  const auto answer = json::from_json<protocol::NewToken>(made->text());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->token.uid, kAlice);
  EXPECT_EQ(answer->token.gpus, std::vector<std::string>{gpu(1)});
  EXPECT_TRUE(tokens_.authenticate(answer->text));
  EXPECT_EQ(create(R"({"name":"more","scope":"control"})")->status(), 403);
  EXPECT_EQ(create(R"({"name":"of bob","scope":"read","uid":1001})")->status(), 403);
  EXPECT_EQ(create(R"({"name":"x","scope":"read","for_ever":true})")->status(), 403);
  EXPECT_EQ(create(R"({"name":"x","scope":"read","service":true})")->status(), 403);
  EXPECT_EQ(create(R"({"name":"","scope":"read"})")->status(), 400);
  EXPECT_EQ(create(R"({"name":"x","scope":"read","gpus":[]})")->status(), 400);
  EXPECT_EQ(create(R"({"name":"x","scope":"read","gpus":[7]})")->status(), 404);
  const std::string list = get("/api/gpu/tokens", local_user(kAlice))->text();
  EXPECT_THAT(list, HasSubstr(answer->token.id));
  EXPECT_THAT(list, Not(HasSubstr(answer->text.substr(12, 43))));
  EXPECT_THAT(get("/api/gpu/tokens", local_user(kBob))->text(), Not(HasSubstr(answer->token.id)));
  EXPECT_EQ(del("/api/gpu/tokens/" + answer->token.id, local_user(kBob))->status(), 404);
  EXPECT_EQ(del("/api/gpu/tokens/ci", local_user(kAlice))->status(), 200);
  EXPECT_FALSE(tokens_.authenticate(answer->text));
}

TEST_F(TokenRoutes, AdministratorCreatesTokensForUsersAndServices) {
  const auto create = [&](const std::string& body) {
    return post("/api/gpu/tokens", body, local_user(0));
  };
  EXPECT_EQ(create(R"({"name":"p","scope":"metrics","service":true,"for_ever":true})")->status(),
            201);
  EXPECT_EQ(create(R"({"name":"q","scope":"lease","service":true})")->status(), 400);
  EXPECT_EQ(create(R"({"name":"r","scope":"lease","service":true,"uid":5})")->status(), 400);
  EXPECT_EQ(create(R"({"name":"s","scope":"lease","for_ever":true,"lasts_s":60})")->status(), 400);
  EXPECT_EQ(create(R"({"name":"ci","scope":"lease","uid":1000})")->status(), 201);
  EXPECT_EQ(create(R"({"name":"cd","scope":"lease","uid":1000})")->status(), 201);
  EXPECT_EQ(del("/api/gpu/tokens?uid=1000", local_user(kBob))->status(), 403);
  EXPECT_EQ(del("/api/gpu/tokens?uid=1000", local_user(0))->status(), 200);
  std::size_t revoked = 0;
  for (const auth::Token& token : tokens_.all()) revoked += token.revoked ? 1 : 0;
  EXPECT_EQ(revoked, 2U);
}

TEST_F(TokenRoutes, AUserMayChangeSixtyTokensAMinute) {
  const auto revoke = [&](std::uint32_t uid) {
    return del("/api/gpu/tokens?uid=" + std::to_string(uid), local_user(uid));
  };
  for (int i = 0; i < 59; ++i) ASSERT_EQ(revoke(kAlice)->status(), 200) << i;
  const std::string body = R"({"name":"ci","scope":"read"})";
  EXPECT_EQ(post("/api/gpu/tokens", body, local_user(kAlice))->status(), 201);
  for (const Calls& refused : {post("/api/gpu/tokens", body, local_user(kAlice)),
                               del("/api/gpu/tokens/ci", local_user(kAlice)), revoke(kAlice)}) {
    EXPECT_EQ(refused->status(), 503);
    EXPECT_THAT(
        refused->message(),
        HasSubstr(
            "the limit is 60 created or revoked tokens per user per minute; try again in 1 s"));
    EXPECT_EQ(http::find_header(refused->answer->headers, "Retry-After"), "1");
  }
  EXPECT_EQ(revoke(kBob)->status(), 200);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(revoke(0)->status(), 200);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(del("/api/gpu/tokens/ci", local_user(kAlice))->status(), 200);
}

TEST_F(TokenRoutes, ContainerUsersShareOwnersLimit) {
  context_.users.quota_owner = [](std::uint32_t uid) { return uid >= 100'000 ? kAlice : uid; };
  for (std::uint32_t i = 0; i < 60; ++i) {
    const std::uint32_t uid = 100'000 + i;
    ASSERT_EQ(del("/api/gpu/tokens?uid=" + std::to_string(uid), local_user(uid))->status(), 200);
  }
  EXPECT_EQ(del("/api/gpu/tokens?uid=1000", local_user(kAlice))->status(), 503);
}

TEST_F(TokenRoutes, ChangesUseTheShareOfTheCaller) {
  const Requester alice{"uid 1000", false};
  const std::string body = R"({"name":"ci","scope":"read"})";
  post("/api/gpu/tokens", body, local_user(kAlice));
  EXPECT_EQ(token_archive_.requesters.back(), alice);
  del("/api/gpu/tokens/ci", local_user(kAlice));
  EXPECT_EQ(token_archive_.requesters.back(), alice);
  post("/api/gpu/tokens", body, local_user(0));
  EXPECT_TRUE(token_archive_.requesters.back().privileged);
}

TEST_F(TokenRoutes, UnstoredRevocationIsMarkedInList) {
  const auto one = made({.name = "ci", .uid = kAlice, .made_by = "uid 1000"});
  token_archive_.broken = Error{Errc::unavailable, "the disk is full"};
  const Calls refused = del("/api/gpu/tokens/ci", local_user(kAlice));
  EXPECT_EQ(refused->status(), 503);
  EXPECT_THAT(refused->message(), HasSubstr("revoked, but not stored yet"));
  EXPECT_THAT(refused->message(), HasSubstr("gpuyard retries"));
  EXPECT_FALSE(tokens_.authenticate(one.text));
  const std::string list = get("/api/gpu/tokens", local_user(kAlice))->text();
  EXPECT_THAT(list, HasSubstr(R"("not_kept":true)"));
  EXPECT_EQ(del("/api/gpu/tokens/ci", local_user(kAlice))->status(), 503) << "by its name again";
  token_archive_.broken.reset();
  EXPECT_EQ(del("/api/gpu/tokens?uid=1000", local_user(kAlice))->status(), 200);
  EXPECT_THAT(get("/api/gpu/tokens", local_user(kAlice))->text(), HasSubstr(R"("not_kept":null)"));
  control_.loop.advance(std::chrono::seconds(1));
  EXPECT_EQ(settings_.audit.size(), 1U) << "one revocation, one line";
}

TEST_F(TokenRoutes, TokensLiveFromASecondToTenYears) {
  const auto create = [&](const std::string& lasts_s, std::uint32_t uid = kAlice) {
    return post("/api/gpu/tokens",
                R"({"name":")" + lasts_s + R"(","scope":"read","lasts_s":)" + lasts_s + "}",
                local_user(uid));
  };
  for (const char* bad : {"0", "-5", "0.9", "315360001", "9.2e9", "9.3e9", "1e18", "1e308"}) {
    for (const std::uint32_t uid : {kAlice, 0U}) {
      const Calls refused = create(bad, uid);
      EXPECT_EQ(refused->status(), 400) << bad;
      EXPECT_THAT(refused->message(), HasSubstr("315360000")) << bad;
    }
  }
  EXPECT_TRUE(tokens_.all().empty());
  EXPECT_EQ(create("1")->status(), 201);
  EXPECT_EQ(create("315360000")->status(), 201);
}

TEST_F(TokenRoutes, TokensOfADeletedUserAreMarked) {
  made({.name = "ci", .uid = 1234, .made_by = "uid 0"});
  made({.name = "of a container", .uid = 100'000, .made_by = "uid 0"});
  EXPECT_THAT(get("/api/gpu/tokens", local_user(0))->text(), Not(HasSubstr(R"("user_gone":true)")));
  context_.users.is_gone = [](std::uint32_t uid) { return uid == 1234 || uid == 100'000; };
  context_.users.quota_owner = [](std::uint32_t uid) { return uid == 100'000 ? kAlice : uid; };
  const auto list =
      json::from_json<protocol::Tokens>(get("/api/gpu/tokens", local_user(0))->text());
  ASSERT_TRUE(list);
  for (const protocol::Token& one : list->tokens) {
    EXPECT_EQ(one.user_gone, one.name == "ci" ? std::optional(true) : std::nullopt) << one.name;
  }
}

TEST_F(TokenRoutes, DigestOfASecretIsNotShown) {
  made({.name = "ci", .uid = kAlice, .made_by = "uid 1000"});
  const std::string digest = tokens_.all().front().digest;
  ASSERT_FALSE(digest.empty());
  const auto list = get("/api/gpu/tokens", local_user(0))->text();
  EXPECT_THAT(list, HasSubstr(R"("name":"ci")"));
  EXPECT_THAT(list, Not(HasSubstr(digest)));
}

TEST_F(TokenRoutes, AuditNamesTokenOfCaller) {
  token_ = token(Scope::control, kAlice);
  EXPECT_EQ(ask(http::Method::post, "/api/gpu/alerts/test", "{}", over_tls())->status(), 403);
  control_.loop.advance(std::chrono::seconds(1));
  EXPECT_EQ(settings_.audit.back().by, "uid 1000 by token " + id_);
}

}  // namespace
}  // namespace gpuyard::api
