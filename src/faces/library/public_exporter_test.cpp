// A PrometheusExporter as a program has it; the test scrapes over its own socket.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpuyard/gpuyard.h"

namespace {

using gpuyard::Errc;
using gpuyard::Monitor;
using gpuyard::PrometheusExporter;

// Returns the whole answer, head and body; empty if no server listens.
std::string get(std::uint16_t port, const std::string& target,
                const std::string& host = "localhost") {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
    ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    std::array<char, 4096> piece{};
    for (ssize_t got = 1; got > 0;) {
      got = ::recv(socket, piece.data(), piece.size(), 0);
      if (got > 0) answer.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
  ::close(socket);
  return answer;
}

bool has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

class PublicExporter : public ::testing::Test {
 protected:
  gpuyard::FakeFleet fleet_ = gpuyard::MockBuilder()
                                  .with_device(0, "H100")
                                  .with_temperature(71)
                                  .with_utilization(93)
                                  .with_memory(40'000'000'000, 80'000'000'000)
                                  .build();
  Monitor monitor_ = Monitor::open_or_none(fleet_);
};

TEST_F(PublicExporter, ServesTheGpusWithAnyPrefix) {
  RecordProperty("contract", "C13 C14");
  PrometheusExporter exporter;
  exporter.with_prefix("my_app").with_port(0);
  ASSERT_TRUE(exporter.register_gpu_metrics(monitor_));
  EXPECT_EQ(exporter.port(), 0);
  ASSERT_TRUE(exporter.start());
  const std::string text = get(exporter.port(), "/metrics");
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 ")) << text.substr(0, 100);
  EXPECT_TRUE(has(text, "my_app_gpu_temperature_celsius{device=\"0\"} 71")) << text;
  EXPECT_TRUE(has(text, "my_app_gpu_utilization_percent{device=\"0\"} 93"));
  EXPECT_TRUE(has(text, "my_app_gpu_memory_used_bytes{device=\"0\"} 4e+10"));
  EXPECT_TRUE(has(text, "my_app_gpu_power_watts{device=\"0\"} 60"));
  EXPECT_NE(text.find("my_app_gpu_info{device=\"0\",uuid=\""), std::string::npos);
  EXPECT_NE(get(exporter.port(), "/").find("gpuyard"), std::string::npos);
}

TEST_F(PublicExporter, ReadsTheGpusForEachScrape) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  ASSERT_TRUE(exporter.register_gpu_metrics(monitor_));
  ASSERT_TRUE(exporter.start());
  const std::string series = "gpuyard_gpu_temperature_celsius{device=\"0\"} ";
  EXPECT_TRUE(has(get(exporter.port(), "/metrics"), series + "71"));
  fleet_.set_temperature(0, 80);
  EXPECT_TRUE(has(get(exporter.port(), "/metrics"), series + "80"));
  fleet_.remove_gpu(0);
  const std::string text = get(exporter.port(), "/metrics");
  EXPECT_EQ(text.find(series), std::string::npos) << "a GPU that is gone has no temperature";
}

TEST_F(PublicExporter, OutlivesItsMonitorAndServesWithoutADriver) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  {
    const Monitor none =
        Monitor::open_or_none(gpuyard::FakeFleet::without_driver("Driver Not Loaded"));
    ASSERT_TRUE(exporter.register_gpu_metrics(none));
  }
  ASSERT_TRUE(exporter.start());
  const std::string text = get(exporter.port(), "/metrics");
  EXPECT_TRUE(has(text, "gpuyard_driver_up 0")) << text;
  EXPECT_EQ(text.find("_gpu_"), std::string::npos);
}

TEST_F(PublicExporter, CannotRegisterUnderANameThatIsNone) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  const auto refused = exporter.with_prefix("9lives").register_gpu_metrics(monitor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().message.find("\"9lives\""), std::string::npos);
  EXPECT_TRUE(exporter.with_prefix("lives9").register_gpu_metrics(monitor_));
  EXPECT_EQ(exporter.register_gpu_metrics(monitor_).error().code, Errc::conflict);
  EXPECT_EQ(exporter.with_prefix("a-b").start().error().code, Errc::invalid);
}

TEST_F(PublicExporter, EmptyOrSecondStartIsRefused) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  EXPECT_EQ(exporter.start().error().message,
            "nothing to serve; call register_gpu_metrics() first");
  ASSERT_TRUE(exporter.register_gpu_metrics(monitor_));
  ASSERT_TRUE(exporter.start());
  EXPECT_EQ(exporter.start().error().code, Errc::conflict);
}

TEST_F(PublicExporter, TakenPortConflictsWithAdvice) {
  RecordProperty("contract", "C13");
  PrometheusExporter first;
  ASSERT_TRUE(first.register_gpu_metrics(monitor_));
  ASSERT_TRUE(first.start());
  PrometheusExporter second;
  ASSERT_TRUE(second.with_port(first.port()).register_gpu_metrics(monitor_));
  const auto refused = second.start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_EQ(refused.error().message, "127.0.0.1:" + std::to_string(first.port()) +
                                         " is in use by another program; choose another port with "
                                         "with_port(), or 0 for any free port");
  EXPECT_EQ(second.port(), 0);
  EXPECT_TRUE(second.with_port(0).start());
  EXPECT_EQ(second.with_address("nowhere").start().error().code, Errc::conflict) << "it serves";
  second.stop();
  EXPECT_EQ(second.start().error().code, Errc::invalid) << "no address";
}

TEST_F(PublicExporter, UnknownHostHeaderGets421) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  ASSERT_TRUE(exporter.with_hosts({"node7"}).register_gpu_metrics(monitor_));
  ASSERT_TRUE(exporter.start());
  const auto status = [&](const std::string& host) {
    return get(exporter.port(), "/", host).substr(0, std::string("HTTP/1.1 200").size());
  };
  EXPECT_EQ(status("node7:9090"), "HTTP/1.1 200");
  EXPECT_EQ(status("127.0.0.1"), "HTTP/1.1 200");
  EXPECT_EQ(status("a.web.page"), "HTTP/1.1 421");
}

// Returns the handler of each signal, and whether it is blocked.
std::vector<std::pair<void (*)(int), bool>> signals() {
  std::vector<std::pair<void (*)(int), bool>> all;
  sigset_t blocked{};
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) != 0) continue;
    all.emplace_back(now.sa_handler, sigismember(&blocked, number) == 1);
  }
  return all;
}

TEST_F(PublicExporter, LeavesSignalsAlone) {
  RecordProperty("contract", "C13");
  const auto before = signals();
  EXPECT_GT(before.size(), 30U);
  PrometheusExporter exporter;
  ASSERT_TRUE(exporter.register_gpu_metrics(monitor_));
  ASSERT_TRUE(exporter.start());
  EXPECT_NE(get(exporter.port(), "/metrics"), "");
  EXPECT_EQ(signals(), before);
  exporter.stop();
  EXPECT_EQ(signals(), before);
}

TEST_F(PublicExporter, StopsAndStartsAgain) {
  RecordProperty("contract", "C13");
  PrometheusExporter exporter;
  ASSERT_TRUE(exporter.register_gpu_metrics(monitor_));
  ASSERT_TRUE(exporter.start());
  const std::uint16_t port = exporter.port();
  exporter.stop();
  exporter.stop();
  EXPECT_EQ(exporter.port(), 0);
  EXPECT_EQ(get(port, "/"), "");
  ASSERT_TRUE(exporter.with_port(port).start());
  PrometheusExporter moved = std::move(exporter);
  EXPECT_TRUE(get(port, "/").starts_with("HTTP/1.1 200 "));
  moved = PrometheusExporter();
  EXPECT_EQ(get(port, "/"), "");
}

}  // namespace
