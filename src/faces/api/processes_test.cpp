// The processes of a GPU, as the routes show them to different callers.
#include <gtest/gtest.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

constexpr uid_t kAlice = 1000;

// A driver with one GPU that has one process and no other readings.
class OneList final : public telemetry::ReadRequester {
 public:
  explicit OneList(ManualLoop& loop) : loop_(loop) {}

  bool read(const std::vector<ReadRequest>& requests) override {
    for (const ReadRequest& request : requests) {
      loop_.post([this, request] {
        Sample sample = missing_sample(request.probes, {}, loop_.now());
        sample.set(ProcessList{loop_.now(), std::vector{GpuProcess{7, {}, {}, {}}}});
        listener->on_replies({{request.id, request.device, sample}});
      });
    }
    return true;
  }

  telemetry::Telemetry* listener = nullptr;

 private:
  ManualLoop& loop_;
};

class Processes : public Routes {
 protected:
  Processes() {
    reader_.listener = &telemetry_;
    driver_.reader = &reader_;
    process_.known = true;
    process_.facts.pid = 7;
    process_.facts.uid = process_.facts.real_uid = kAlice;
    process_.facts.command = "python3";
    process_.facts.arguments = std::vector<std::string>{"python3", "--token=secret"};
    Inventory fleet;
    fleet.devices = {{"GPU-0", 0, "GPU-0", "0000:01:00.0", "A GPU", {}}};
    telemetry_.on_inventory(fleet);
    loop_.advance(std::chrono::seconds(6));
  }

  std::string get(const std::string& path, std::optional<uid_t> uid) {
    http::Request request;
    request.path = path;
    if (uid) request.peer = local_user(*uid);
    std::string body;
    router_.handle(std::move(request), http::Reply([&](const http::Response& response) {
                     EXPECT_EQ(response.status, 200);
                     body = *response.body;
                   }));
    return body;
  }
  bool contains_text(const std::string& body, std::string_view text) {
    return body.find(text) != std::string::npos;
  }

  OneList reader_{loop_};
};

TEST_F(Processes, ArgumentsAreVisibleToOwnerAndAdmin) {
  for (const uid_t uid : {kAlice, uid_t{0}, kDaemonUid}) {
    EXPECT_TRUE(contains_text(get("/api/gpu/devices/0/processes", uid), "--token=secret")) << uid;
  }
}

TEST_F(Processes, OtherUsersSeeCommandWithoutArguments) {
  for (const std::optional<uid_t> uid : {std::optional<uid_t>(kAlice + 1), {}}) {
    const auto body = get("/api/gpu/devices/0/processes", uid);
    EXPECT_FALSE(contains_text(body, "secret"));
    EXPECT_TRUE(contains_text(body, R"("command":"python3")"));
    EXPECT_TRUE(contains_text(body, R"("missing":{"arguments":"shown only)")) << body;
  }
}

TEST_F(Processes, NeverTellArgumentsWhereTheAnswerIsShared) {
  for (const char* path : {"/api/gpu/snapshot", "/api/gpu/devices/0", "/metrics"}) {
    EXPECT_FALSE(contains_text(get(path, uid_t{0}), "secret")) << path;
  }
  EXPECT_TRUE(contains_text(get("/api/gpu/devices/0", {}), R"("command":"python3")"));
  EXPECT_FALSE(contains_text(get("/metrics", uid_t{0}), "python3"));
}

TEST_F(Processes, SnapshotIncludesResolvedMetadata) {
  process_.known = false;
  EXPECT_TRUE(contains_text(get("/api/gpu/snapshot", {}), "not looked up yet"));
  process_.known = true;
  EXPECT_TRUE(contains_text(get("/api/gpu/snapshot", {}), R"("command":"python3")"));
}

}  // namespace
}  // namespace gpuyard::api
