// A daemon behind its routes, without a socket, a driver or a disk; shared by tests of several
// files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/manual_worker_for_tests.h"
#include "core/andon/alert_service_fixture_for_tests.h"
#include "core/auth/archive_for_tests.h"
#include "core/control/control_fixture_for_tests.h"
#include "core/energy/archive_for_tests.h"
#include "core/history/store_for_tests.h"
#include "core/lease/lease_fixture_for_tests.h"
#include "core/usage/usage_storage_for_tests.h"
#include "faces/api/caller_for_tests.h"
#include "faces/api/context.h"
#include "faces/api/router.h"
#include "gpu/device/record_archive_for_tests.h"

namespace gpuyard::api {

// The body of an error.
struct Refusal {
  struct Why {
    std::string code;
    std::string message;
    std::optional<std::string> hint;
  };
  Why error;
};
BOOST_DESCRIBE_STRUCT(Refusal::Why, (), (code, message, hint))
BOOST_DESCRIBE_STRUCT(Refusal, (), (error))

// A driver that refuses every query until the test sets who answers.
class ForwardingReader final : public telemetry::ReadRequester {
 public:
  bool read(const std::vector<ReadRequest>& requests) override {
    return reader != nullptr && reader->read(requests);
  }
  telemetry::ReadRequester* reader = nullptr;
};

// A process that is known once the test says so.
class OneProcess final : public ProcessDirectory {
 public:
  Result<const ProcessMetadata*> find(std::uint32_t) const override {
    if (!known) return Error{Errc::unavailable, "not looked up yet"};
    return &facts;
  }
  std::uint64_t revision() const override { return known ? 1 : 0; }

  ProcessMetadata facts;
  bool known = false;
};

class NoUseReads final : public usage::UsageReader {
  void read_fresh(const std::vector<DeviceId>&,
                  std::function<void(const usage::UsageSnapshot&)>) override {}
};

class FakeSinks final : public AlertSinks {
 public:
  std::vector<protocol::Sink> sinks() const override {
    protocol::Sink sink;
    sink.name = "ops";
    return {sink};
  }
  std::string file() const override { return "/etc/gpuyard/alerts.toml"; }
  void test(const std::string& sink, const std::string& by, OnTested tested) override {
    asked = sink + " by " + by;
    tested(std::vector<protocol::SinkTest>{{"ops", true, 0.5, std::nullopt}});
  }
  std::string asked;
};

// The router over a daemon of which only the leases have started: a test starts the rest that it
// needs.
class Routes : public ::testing::Test {
 protected:
  explicit Routes(unsigned gpus = 0) : world_(gpus) {
    context_.daemon.version = "1.2.3";
    context_.metrics.prefix = "gpuyard";
  }

  lease::LeaseFixture world_;
  ManualLoop& loop_ = world_.loop;
  ForwardingReader driver_;
  OneProcess process_;
  telemetry::Telemetry telemetry_{loop_, driver_};
  EventHub hub_{"00ff", telemetry_.latest(), &process_};
  ManualWorker worker_;
  std::shared_ptr<history::FakeMinuteStorage> store_ =
      std::make_shared<history::FakeMinuteStorage>();
  history::History history_{loop_, worker_, store_, "boot"};
  processes::ProcessRecorder stays_{
      worker_, std::make_shared<FakeRecordArchive<processes::ProcessSpan>>(), "boot"};
  bottleneck::BottleneckRecorder spells_{
      worker_, std::make_shared<FakeRecordArchive<bottleneck::BottleneckSpan>>()};
  energy::FakeEnergyStorage energy_archive_;
  energy::FakeFreshReader reads_{loop_};
  energy::Meter meter_{loop_, reads_, energy_archive_, "boot"};
  control::ControlFixture settings_;
  control::Daemon control_{settings_};
  usage::FakeUsageStorage use_archive_{loop_};
  NoUseReads no_use_reads_;
  usage::UsageRecorder use_{loop_, no_use_reads_, use_archive_};
  andon::FakeAlertStorage alert_archive_{loop_};
  andon::FakeAlertNotifier messenger_;
  andon::AlertService alert_service_{loop_, alert_archive_, messenger_, {andon::hot_rule()}};
  FakeSinks sinks_;
  AlertPublisher alert_publisher_{hub_, alert_service_};
  auth::FakeTokenStorage token_archive_{loop_};
  auth::TokenStore tokens_{loop_, token_archive_};
  auth::AuthThrottle guesses_{loop_};
  ClientCertificates certificates_{loop_, {}};
  Histogram nothing_measured_;
  Context context_{Rooms{.loop = loop_,
                         .telemetry = telemetry_,
                         .events = hub_,
                         .processes = process_,
                         .history = history_,
                         .process_recorder = stays_,
                         .bottleneck_recorder = spells_,
                         .energy = meter_,
                         .control = control_.control(),
                         .leases = *world_.leases,
                         .usage = use_,
                         .alerts = alert_service_,
                         .alert_sinks = sinks_,
                         .alert_publisher = alert_publisher_,
                         .tokens = tokens_,
                         .auth_throttle = guesses_,
                         .certificates = certificates_,
                         .loop_lag = nothing_measured_,
                         .alert_cost = nothing_measured_}};
  // The rights of a client certificate with this name.
  static Authority authority() {
    Authority authority(kDaemonUid, "gpuyard", 600);
    auth::Token grant;
    grant.name = "DNS:prometheus.lab";
    grant.scope = Scope::read;
    authority.certificates.emplace(grant.name, grant);
    return authority;
  }
  Router router_{context_, authority()};
};

class LeaseRoutes : public Routes {
 protected:
  static constexpr const char* kLeases = "/api/gpu/leases";
  static constexpr std::uint32_t kAlice = 1000;
  static constexpr std::uint32_t kBob = 1001;

  // The client of a request, and its answer once there is one.
  struct Call {
    std::optional<http::Response> answer;
    std::shared_ptr<http::DisconnectNotifier> presence =
        std::make_shared<http::DisconnectNotifier>();

    bool is_answered() const { return answer.has_value(); }
    int status() const { return answer ? answer->status : 0; }
    std::string text() const { return answer && answer->body ? *answer->body : ""; }
    protocol::Lease lease() const {
      // The answer to a release has one field more.
      auto read = json::from_json<protocol::LeaseAnswer>(text(), json::UnknownFields::ignore);
      EXPECT_TRUE(read) << text();
      return read ? read->lease : protocol::Lease{};
    }
    std::string message() const { return json::from_json<Refusal>(text())->error.message; }
  };
  using Calls = std::shared_ptr<Call>;

  explicit LeaseRoutes(unsigned gpus = 2) : Routes(gpus) {
    Inventory fleet;
    for (const lease::PoolGpu& gpu : world_.fleet) fleet.devices.push_back(gpu.info);
    telemetry_.on_inventory(fleet);
    tokens_.start();
    alert_service_.start();
    meter_.start();
    energy_archive_.answer_load(energy::LedgerState{});
    pass(std::chrono::milliseconds(300));
    context_.users.name_of = [](std::uint32_t uid) {
      return uid == kAlice ? std::optional<std::string>("alice") : std::nullopt;
    };
  }

  // Clients disconnect before the server stops.
  ~LeaseRoutes() override {
    for (const auto& client : clients_) client->notify();
  }

  // Returns a process of a user as a peer that sends requests.
  http::Peer process(std::uint32_t pid, std::uint32_t uid = kAlice) {
    if (!world_.observer.running.contains(pid)) world_.observer.start(pid, uid);
    http::Peer peer = local_user(uid);
    peer.listener = "/run/gpuyard/gpuyard.sock";
    peer.pid = static_cast<pid_t>(pid);
    peer.process = world_.observer.running.at(pid).identity.fd;
    return peer;
  }
  static http::Peer over_tcp() { return {}; }

  Calls ask(http::Method method, const std::string& path, const std::string& body,
            http::Peer peer) {
    auto call = std::make_shared<Call>();
    http::Request request;
    request.method = method;
    const std::size_t mark = path.find('?');
    request.path = path.substr(0, mark);
    for (std::string rest = mark == path.npos ? "" : path.substr(mark + 1); !rest.empty();) {
      const std::string one = rest.substr(0, rest.find('&'));
      rest.erase(0, one.size() + 1);
      request.query.emplace_back(one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
    }
    request.body = body;
    if (!token_.empty()) request.headers.push_back({"Authorization", "Bearer " + token_});
    request.peer = std::move(peer);
    request.peer.disconnect_notifier = call->presence;
    router_.handle(std::move(request), http::Reply([call](http::Response sent) {
                     call->presence->on_disconnect(nullptr);  // as a session does
                     call->answer = std::move(sent);
                   }));
    world_.loop.run_posted();
    clients_.push_back(call->presence);
    return call;
  }
  Calls get(const std::string& path, http::Peer peer = over_tcp()) {
    return ask(http::Method::get, path, "", std::move(peer));
  }
  Calls post(const std::string& path, const std::string& body, http::Peer peer) {
    return ask(http::Method::post, path, body, std::move(peer));
  }
  Calls del(const std::string& path, http::Peer peer) {
    return ask(http::Method::del, path, "", std::move(peer));
  }
  Calls claim(const std::string& body, http::Peer peer) {
    return post(kLeases, body, std::move(peer));
  }
  // Returns a lease that is granted at once.
  protocol::Lease held(const std::string& body, http::Peer peer) {
    const Calls call = claim(body, std::move(peer));
    EXPECT_EQ(call->status(), 200) << call->text();
    const auto lease = call->lease();
    EXPECT_EQ(lease.state, lease::LeaseState::held);
    return lease;
  }
  void pass(Duration time) { world_.loop.advance(time); }
  static http::Peer over_tls() {
    http::Peer peer;
    peer.encrypted = true;
    peer.quota_group = "192.0.2.7";
    return peer;
  }
  auth::TokenStore::CreatedToken made(auth::TokenRequest request) {
    std::optional<auth::TokenStore::CreatedToken> made;
    tokens_.create(std::move(request), [&](auto one) {
      EXPECT_TRUE(one) << one.error().text();
      if (one) made = *std::move(one);
    });
    world_.loop.run_posted();
    return made.value_or(auth::TokenStore::CreatedToken{});
  }

  std::vector<std::shared_ptr<http::DisconnectNotifier>> clients_;
  std::string token_;  // the token that requests show; "": none
};

}  // namespace gpuyard::api
