#include "faces/api/router.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/captured_log_for_tests.h"
#include "faces/api/bound_route.h"
#include "faces/api/routes_for_tests.h"
#include "gpu/device/catalog.h"
#include "gpu/device/error.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard::api {
namespace {

// Answers as the driver-host does: later, and with the time at which the driver answered.
class FakeReader final : public telemetry::ReadRequester {
 public:
  FakeReader(ManualLoop& loop, const FakeFleet& fleet) : loop_(loop), backend_(fleet.backend()) {}

  bool read(const std::vector<ReadRequest>& requests) override {
    for (const ReadRequest& request : requests) {
      ++asked;
      if (!silent.contains(request.device)) loop_.post([this, request] { answer(request); });
    }
    return true;
  }

  telemetry::Telemetry* listener = nullptr;
  int asked = 0;
  std::set<DeviceId> silent;

 private:
  void answer(const ReadRequest& request) {
    const Sample answered = backend_->read(request.device, request.probes);
    Sample sample;
    for (Reading reading : answered.readings()) {
      reading.taken = loop_.now();
      sample.set(std::move(reading));
    }
    listener->on_replies({{request.id, request.device, sample}});
  }

  ManualLoop& loop_;
  std::unique_ptr<Backend> backend_;
};

class RouterTest : public Routes {
 protected:
  RouterTest() {
    reader_.listener = &telemetry_;
    driver_.reader = &reader_;
  }

  void start_driver() {
    telemetry_.on_inventory(fleet_.inventory());
    loop_.run_posted();
  }
  void fail_driver() { telemetry_.on_no_driver(init_error("NVML Shared Library Not Found")); }

  http::Response send(http::Request request) {
    loop_.advance(std::chrono::milliseconds(1));  // no request comes at the moment of a reading
    int answers = 0;
    http::Response response;
    router_.handle(std::move(request), http::Reply([&](http::Response sent) {
                     ++answers;
                     response = std::move(sent);
                   }));
    loop_.run_posted();
    if (answers == 0) loop_.advance(telemetry::kFreshReadTimeout);
    EXPECT_EQ(answers, 1);
    return response;
  }
  http::Response get(const std::string& path, const NamedValues& query = {}) {
    http::Request request;
    request.path = path;
    request.query = query;
    return send(std::move(request));
  }
  boost::json::value body(const std::string& path) { return boost::json::parse(*get(path).body); }
  boost::json::value temperature() {
    return body("/api/gpu/devices").at_pointer("/devices/0/temperature_c");
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, std::int64_t{80} << 30U);
  FakeReader reader_{loop_, fleet_};
  CapturedLog log_;
};

TEST_F(RouterTest, MetricsIgnoresParameters) {
  start_driver();
  const http::Response plain = get("/metrics");
  const http::Response asked = get("/metrics", {{"collect[]", "gpu"}, {"target", "lab:9410"}});
  EXPECT_EQ(asked.status, 200);
  EXPECT_EQ(asked.content_type, plain.content_type);
  EXPECT_EQ(get("/health", {{"target", "lab:9410"}}).status, 400);
}

TEST_F(RouterTest, DevicesAreAListWithItsCount) {
  RecordProperty("contract", "E2 E6 E10");
  start_driver();
  fleet_.set_missing(1, Metric::memory_total, {MissingReason::failed, "Unknown Error"});
  const auto response = get("/api/gpu/devices");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(
      *response.body,
      R"({"devices":[{"index":0,"name":"Fake GPU","total_memory_mb":81920,)"
      R"("free_memory_mb":81920,"used_memory_mb":0,"utilization_percent":0,"temperature_c":40,)"
      R"("is_available":true,"error_message":null},{"index":1,"name":"Fake GPU",)"
      R"("total_memory_mb":null,"free_memory_mb":null,"used_memory_mb":null,)"
      R"("utilization_percent":null,"temperature_c":null,"is_available":false,)"
      R"("error_message":"Unknown Error"}],"count":2})");
}

TEST_F(RouterTest, DevicesAreAlwaysFresh) {
  RecordProperty("contract", "E1");
  start_driver();
  EXPECT_EQ(temperature(), 40);
  fleet_.set_temperature(0, 77);
  const int before = reader_.asked;
  EXPECT_EQ(temperature(), 77);
  EXPECT_EQ(reader_.asked, before + 2);  // the driver was queried once for each GPU
}

TEST_F(RouterTest, NoDriverReturnsEmptyDeviceList) {
  RecordProperty("contract", "E6 E7 E10");
  fail_driver();
  const auto response = get("/api/gpu/devices");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(*response.body, R"({"devices":[],"count":0})");
}

TEST_F(RouterTest, DevicesAreEmptyBeforeDriverReplies) {
  EXPECT_EQ(*get("/api/gpu/devices").body, R"({"devices":[],"count":0})");
}

TEST_F(RouterTest, DriverVersionsAreReported) {
  RecordProperty("contract", "E4 E7 E10");
  start_driver();
  const auto response = get("/api/gpu/driver");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(*response.body, R"({"driver_version":"999.99.99","cuda_driver_version":"99.9",)"
                            R"("nvml_version":"99.999.99"})");
}

TEST_F(RouterTest, DriverVersionsWithoutDriverAre503WithDetail) {
  RecordProperty("contract", "E7 E13 E10");
  fail_driver();
  const auto response = get("/api/gpu/driver");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(*response.body, R"({"detail":"NVML Shared Library Not Found"})");
}

TEST_F(RouterTest, DriverStatesAreLogged) {
  RecordProperty("contract", "E9");
  fail_driver();
  get("/api/gpu/devices");
  start_driver();
  fleet_.set_missing(0, Metric::temperature_core, {MissingReason::failed, "Unknown Error"});
  for (int i = 0; i < 3; ++i) get("/api/gpu/devices");
  const std::vector<std::string> expected = {
      "WARNING NVML initialization failed: NVML Shared Library Not Found. GPU features disabled.",
      "DEBUG NVML not initialized, returning empty device list",
      "INFO NVML initialized successfully. Found 2 GPU(s)",
      "ERROR Error querying GPU device 0: Unknown Error"};
  EXPECT_EQ(log_.lines(), expected);
}

TEST_F(RouterTest, GpuIsFoundByIndexUuidOrPci) {
  RecordProperty("contract", "A4");
  start_driver();
  for (const std::string name :
       {"1", "GPU-00000000-0000-4000-8000-000000000001", "0000:02:00.0", "00000000:02:00.0"}) {
    EXPECT_EQ(body("/api/gpu/devices/" + name).at("index"), 1) << name;
  }
}

TEST_F(RouterTest, AGpuThatIsNotThereIs404) {
  start_driver();
  const auto response = get("/api/gpu/devices/2");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(*response.body,
            R"({"error":{"code":"not_found","message":"GPU index 2 is out of range"}})");
}

TEST_F(RouterTest, TheSnapshotHoldsEveryGpu) {
  start_driver();
  const auto snapshot = body("/api/gpu/snapshot");
  EXPECT_EQ(snapshot.at("devices").as_array().size(), 2U);
  EXPECT_EQ(snapshot.at("devices").at(1).at("readings").at("temperature_core_celsius"), 40);
  EXPECT_TRUE(snapshot.at("devices").at(1).at("readings").at("power_draw_w").is_null());
}

TEST_F(RouterTest, UnknownPathIs404) {
  for (const char* path : {"/nothing", "/health/", "//health", "/api/gpu/devices/", "/api/gpu"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(*get("/x").body, R"({"error":{"code":"not_found","message":)"
                             R"("/x not found; see /openapi.json for all routes"}})");
}

TEST_F(RouterTest, UnsupportedMethodIs405WithAllow) {
  http::Request request;
  request.path = "/api/gpu/devices/0";
  request.method = http::Method::del;
  const auto response = send(std::move(request));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(find_header(response.headers, "Allow"), "GET");
}

TEST_F(RouterTest, UnknownQueryParameterIs400) {
  start_driver();
  const auto response = get("/api/gpu/devices", {{"fields", "name"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(*response.body,
            R"({"error":{"code":"invalid","message":"unknown parameter \"fields\""}})");
}

TEST_F(RouterTest, QueryParameterCannotReplacePathParameter) {
  start_driver();
  EXPECT_EQ(get("/api/gpu/devices/0", {{"id", "1"}}).status, 400);
}

TEST_F(RouterTest, ReadyIs503WithReasonUntilDriverStarts) {
  RecordProperty("contract", "E13");
  EXPECT_EQ(get("/ready").status, 503);
  fail_driver();
  const auto response = get("/ready");
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(*response.body,
              testing::StartsWith(
                  R"({"ready":false,"reason":"NVML Shared Library Not Found",)"
                  R"("cuda_available":false,"gpus":0,"simulated":false,"notes":[],"now":"20)"));
  start_driver();
  EXPECT_EQ(get("/ready").status, 200);
}

TEST_F(RouterTest, HealthNeedsNoDriver) {
  const auto response = get("/health");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(*response.body, R"({"status":"ok","version":"1.2.3"})");
}

TEST_F(RouterTest, MetricsAreRenderedOnceForEachSnapshot) {
  start_driver();
  const auto first = get("/metrics");
  EXPECT_EQ(first.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(get("/metrics").body, first.body);
  fleet_.set_temperature(0, 77);
  loop_.advance(kFastInterval);
  const auto second = get("/metrics");
  EXPECT_NE(second.body, first.body);
  EXPECT_NE(second.body->find("gpuyard_gpu_temperature_celsius{device=\"0\"} 77\n"),
            std::string::npos);
}

TEST_F(RouterTest, AcceptHeaderSelectsOpenMetrics) {
  start_driver();
  const auto plain = get("/metrics");
  http::Request request;
  request.path = "/metrics";
  request.headers = {
      {"Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}};
  const auto open = send(request);
  EXPECT_EQ(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_TRUE(open.body->ends_with("# EOF\n"));
  EXPECT_EQ(http::find_header(open.headers, "Vary"), "Accept");
  EXPECT_EQ(send(request).body, open.body);  // rendered once
  EXPECT_EQ(get("/metrics").body, plain.body);
}

TEST_F(RouterTest, MetricsSpeakTheConfiguredDialect) {
  context_.metrics.selection.dialect = metrics::Dialect::both;
  start_driver();
  const auto text = *get("/metrics").body;
  EXPECT_NE(text.find("\ngpuyard_gpu_temperature_celsius{device=\"0\"}"), std::string::npos);
  EXPECT_NE(text.find("\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-"), std::string::npos) << text;
  EXPECT_NE(text.find(",Hostname=\""), std::string::npos);
}

TEST_F(RouterTest, TheDescriptionListsEveryRouteOfTheTable) {
  const auto paths = body("/openapi.json").at("paths").as_object();
  std::size_t described = 0;
  for (const auto& path : paths) described += path.value().as_object().size();
  EXPECT_EQ(described, all_routes().size());
  for (const BoundRoute& route : all_routes()) {
    ASSERT_TRUE(paths.contains(route.info.pattern)) << route.info.pattern;
    std::string method(route.info.method);
    std::ranges::transform(method, method.begin(), [](int c) { return std::tolower(c); });
    const auto& operation = paths.at(route.info.pattern).at(method);
    EXPECT_EQ(operation.at("summary"), boost::json::value(route.info.summary));
    EXPECT_EQ(operation.at("tags").at(0), boost::json::value(route.info.tag));
  }
}

TEST_F(RouterTest, TheDescriptionKnowsWhereAParameterStands) {
  const auto parameters =
      body("/openapi.json").at("paths").at("/api/gpu/devices/{id}").at("get").at("parameters");
  ASSERT_EQ(parameters.as_array().size(), 1U);
  EXPECT_EQ(parameters.at(0).at("name"), "id");
  EXPECT_EQ(parameters.at(0).at("in"), "path");
  EXPECT_EQ(parameters.at(0).at("required"), true);
}

TEST_F(RouterTest, AnyPathIsAnsweredOnce) {
  start_driver();
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"/",    "api", "gpu",     "devices", "{id}",
                                           "\xFF", "0",   "metrics", "..",      "ready"};
  for (int i = 0; i < 2000; ++i) {
    std::string path = "/";
    for (auto count = random() % 8; count > 0; --count) path += pieces[random() % pieces.size()];
    const int status = get(path).status;
    EXPECT_TRUE(status == 200 || status == 404) << path;
  }
}

// Returns the first event of a listener.
std::string beginning_of(const http::Response& response) {
  return response.stream ? std::string(response.stream->next().text()) : "no stream";
}

TEST_F(RouterTest, EventsContinueAfterIdInHeaderOrQuery) {
  start_driver();
  hub_.publish("device", "1");
  hub_.publish("device", "2");
  http::Request request;
  request.path = "/api/gpu/events";
  request.headers = {{"Last-Event-ID", "00ff-1"}};
  EXPECT_EQ(beginning_of(send(request)), "id: 00ff-2\nevent: device\ndata: 2\n\n");
  EXPECT_EQ(beginning_of(get("/api/gpu/events", {{"since", "00ff-1"}})),
            "id: 00ff-2\nevent: device\ndata: 2\n\n");
  // A browser may send the id of a daemon that has ended meanwhile: that is no mistake of the page.
  request.headers = {{"Last-Event-ID", "nonsense"}};
  EXPECT_EQ(beginning_of(send(request)).substr(0, 24), "id: 00ff-2\nevent: resync");
}

TEST_F(RouterTest, EventsRefuseUnknownParameterValues) {
  start_driver();
  EXPECT_EQ(get("/api/gpu/events", {{"samples", "some"}}).status, 400);
  EXPECT_EQ(get("/api/gpu/events", {{"since", "nonsense"}}).status, 400);
  EXPECT_EQ(get("/api/gpu/events", {{"gpus", "0,7"}}).status, 404);
  EXPECT_EQ(get("/api/gpu/events", {{"gpus", "0,1"}}).status, 200);
}

TEST_F(RouterTest, EventsAcceptUnknownGpuWithoutDriver) {
  fail_driver();
  EXPECT_EQ(get("/api/gpu/events", {{"gpus", "7"}}).status, 200);
}

TEST(Match, FindsTheNamedSegments) {
  EXPECT_EQ(match("/a/{x}/b/{y}", "/a/1/b/2"), (NamedValues{{"x", "1"}, {"y", "2"}}));
  EXPECT_EQ(match("/a", "/a"), NamedValues{});
  EXPECT_EQ(match("/", "/"), NamedValues{});
}

TEST(Match, ShorterLongerOrEmptyPathIsRefused) {
  for (const char* path : {"", "/", "/a", "/a/", "/a/1/", "/a/1/b", "a/1", "/b/1", "/a//"}) {
    EXPECT_EQ(match("/a/{x}", path), std::nullopt) << path;
  }
}

}  // namespace
}  // namespace gpuyard::api
