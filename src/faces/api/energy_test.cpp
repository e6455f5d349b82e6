// The energy routes as their clients see them. The energy room tests the sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using ::testing::HasSubstr;

class EnergyRoutes : public Routes {
 protected:
  EnergyRoutes() {
    reads_.gpus.push_back({"GPU-1", 0});
    meter_.start();
    energy_archive_.answer_load(energy::LedgerState{});
    pass(1);
  }
  void pass(int ticks) {
    loop_.advance(std::chrono::seconds(ticks));
    for (auto& gpu : reads_.gpus) *gpu.counter_mj += ticks * 100'000LL;
    meter_.on_snapshot(reads_.now());
  }
  http::Response send(http::Method method, const std::string& path, const std::string& text = "",
                      const http::Peer& peer = local_user(1000)) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = text;
    request.peer = peer;
    http::Response answer;
    router_.handle(std::move(request),
                   http::Reply([&](http::Response sent) { answer = std::move(sent); }));
    loop_.advance(std::chrono::milliseconds(1));
    loop_.run_posted();
    energy_archive_.answer_saves();
    return answer;
  }
  static boost::json::value body(const http::Response& response) {
    return boost::json::parse(*response.body);
  }
  static std::string message(const http::Response& response) {
    return std::string(body(response).at_pointer("/error/message").as_string());
  }
  std::string begin(const std::string& text = "") {
    const auto answer = send(http::Method::post, kWindows, text);
    EXPECT_EQ(answer.status, 201) << *answer.body;
    return std::string(body(answer).at("id").as_string());
  }

  static constexpr const char* kWindows = "/api/gpu/energy/windows";
};

TEST_F(EnergyRoutes, ReportTotalsAllGpus) {
  pass(3);
  const auto report = body(send(http::Method::get, "/api/gpu/energy"));
  EXPECT_EQ(report.at("joules").to_number<double>(), 600);
  EXPECT_EQ(report.at_pointer("/gpus/0/accounts/unattributed_joules").to_number<double>(), 300);
  EXPECT_EQ(report.at_pointer("/gpus/0/estimated"), false);
  EXPECT_TRUE(report.at("notes").as_array().empty());
}

TEST_F(EnergyRoutes, StorageErrorAppearsInNotes) {
  energy_archive_.notes_ = {"state.db cannot be kept now: disk full; retrying"};
  const auto report = body(send(http::Method::get, "/api/gpu/energy"));
  EXPECT_THAT(report.at_pointer("/notes/0").as_string().c_str(), HasSubstr("disk full"));
}

TEST_F(EnergyRoutes, WindowCanBeStartedReadListedAndEnded) {
  const std::string id = begin(R"({"gpus":[1],"name":"train","most_seconds":60})");
  const std::string path = std::string(kWindows) + "/" + id;
  pass(10);
  const auto look = body(send(http::Method::get, path));
  EXPECT_EQ(look.at("joules").to_number<double>(), 1000);
  EXPECT_EQ(look.at("owner_uid"), 1000);
  EXPECT_EQ(look.at("name"), "train");
  EXPECT_EQ(look.at_pointer("/gpus/0/uuid"), "GPU-1");
  EXPECT_NEAR(look.at_pointer("/gpus/0/mean_w").to_number<double>(), 100, 0.1);
  EXPECT_EQ(body(send(http::Method::get, kWindows)).at("windows").as_array().size(), 1U);
  const auto ended = send(http::Method::del, path);
  EXPECT_EQ(ended.status, 200);
  EXPECT_EQ(body(ended).at("joules").to_number<double>(), 1000);
  EXPECT_EQ(send(http::Method::get, path).status, 404);
  EXPECT_EQ(send(http::Method::del, path).status, 404);
  EXPECT_TRUE(body(send(http::Method::get, kWindows)).at("windows").as_array().empty());
}

TEST_F(EnergyRoutes, WindowWithoutBodyCoversAllGpus) {
  const std::string id = begin();
  const auto window = body(send(http::Method::get, std::string(kWindows) + "/" + id));
  EXPECT_EQ(window.at("gpus").as_array().size(), 2U);
  EXPECT_TRUE(window.at("name").is_null());
}

TEST_F(EnergyRoutes, InvalidBodyIsRefusedWithJsonPath) {
  const auto refuse = [&](const std::string& text, const std::string& why) {
    const auto answer = send(http::Method::post, kWindows, text);
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_THAT(message(answer), HasSubstr(why));
  };
  refuse("{", "body: not valid JSON");
  refuse("[]", "body: /: expected an object; got an array");
  refuse(R"({"gpus":["0",true]})", "body: /gpus/1: must be an index, a UUID or a PCI address");
  refuse(R"({"gpu":[]})", "body: /gpu: unknown field");
  refuse(R"({"gpus":[]})", "/gpus: expected 1 to 256 entries; got 0");
  refuse(R"({"most_seconds":1e9})", "/most_seconds: ");
  refuse(R"({"most_seconds":999999999})", "/most_seconds: expected 1 to 2592000; got 999999999");
  refuse(R"({"name":7})", "body: /name: expected a string; got 7");
  EXPECT_EQ(send(http::Method::post, kWindows, R"({"gpus":[7]})").status, 404);
}

TEST_F(EnergyRoutes, OnlyOwnerOrAdministratorEndsWindow) {
  const std::string path = std::string(kWindows) + "/" + begin();
  const auto other = send(http::Method::del, path, "", local_user(1001));
  EXPECT_EQ(other.status, 403);
  EXPECT_THAT(message(other), HasSubstr("the window belongs to UID 1000"));
  EXPECT_EQ(send(http::Method::get, path, "", local_user(1001)).status, 200);
  EXPECT_EQ(send(http::Method::del, path, "", local_user(0)).status, 200);
}

}  // namespace
}  // namespace gpuyard::api
