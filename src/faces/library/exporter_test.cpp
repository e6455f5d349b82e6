// The exporter over real sockets: answers, refusals and the end.
#include "faces/library/exporter.h"
#include "faces/library/scraper.h"

#include <future>

#include <gtest/gtest.h>

#include "io/http/client.h"

namespace gpuyard::library {
namespace {

using namespace std::chrono_literals;

constexpr Duration kExporterTimeout = 30s;

Result<http::ClientResponse> get(const Exporter& exporter, const std::string& target,
                                 http::Method method = http::Method::get) {
  http::ClientRequest request;
  request.method = method;
  request.target = target;
  return http::fetch(http::Endpoint::tcp("127.0.0.1", exporter.port()), request, kExporterTimeout);
}

std::unique_ptr<Exporter> serve(Scraper::SnapshotReader read, const ExporterOptions& options = {}) {
  auto exporter = Exporter::start({std::move(read), "p", "1.2.3"}, options);
  EXPECT_TRUE(exporter.ok());
  return *std::move(exporter);
}

Snapshot nothing() {
  return {};
}

TEST(Exporter, MetricsAndDescriptionAreServed) {
  RecordProperty("contract", "C13");
  const auto exporter = serve(nothing, {.version = "1.2.3"});
  const auto metrics = get(*exporter, "/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_EQ(metrics->header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics->body.find("p_driver_up 0\n"), std::string::npos);
  EXPECT_NE(metrics->body.find("p_build_info{version=\"1.2.3\"} 1\n"), std::string::npos);
  const auto about = get(*exporter, "/");
  ASSERT_TRUE(about);
  EXPECT_EQ(about->body, "gpuyard 1.2.3: the GPUs of this program, for Prometheus, at /metrics\n");
}

TEST(Exporter, UnknownPathOrMethodIsRefused) {
  RecordProperty("contract", "C13");
  const auto exporter = serve(nothing);
  EXPECT_EQ(get(*exporter, "/api/gpu/devices")->status, 404);
  const auto refused = get(*exporter, "/metrics", http::Method::post);
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->header("Allow"), "GET, HEAD");
}

TEST(Exporter, EndsWhileAReadingIsUnderWay) {
  std::promise<void> reading;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  auto exporter = serve([&reading, may_go_on] {
    reading.set_value();
    may_go_on.wait_for(kExporterTimeout);
    return Snapshot{};
  });
  auto scrape = std::async(std::launch::async, [port = exporter->port()] {
    http::ClientRequest request;
    request.target = "/metrics";
    return http::fetch(http::Endpoint::tcp("127.0.0.1", port), request, kExporterTimeout).ok();
  });
  ASSERT_EQ(reading.get_future().wait_for(kExporterTimeout), std::future_status::ready);
  exporter.reset();
  EXPECT_FALSE(scrape.get()) << "it had its second";
  go_on.set_value();
}

}  // namespace
}  // namespace gpuyard::library
