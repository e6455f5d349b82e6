// An HTTP server of its own for Prometheus, inside a program that has GPUs to show: a loop on one
// thread, and a worker beside it that waits for the driver.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/worker.h"
#include "http/server.h"
#include "library/scrape_desk.h"

namespace gpuyard::library {

struct ExporterOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;               // 0: any that is free
  std::vector<std::string> hosts = {};  // further names that a Host field may carry
  std::string version = {};
};

// Start and destroy it on one thread, which is not its own.
class Exporter {
 public:
  // Errors: http::Server::listen_tcp()'s, and Errc::unavailable without a thread or a file
  // descriptor for the loop.
  static Result<std::unique_ptr<Exporter>> start(Scraper, const ExporterOptions&);
  // Answers what is under way for kGrace at most.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  // A scraper keeps its connection; nobody needs many.
  static constexpr std::size_t kConnections = 64;
  static constexpr Duration kGrace = std::chrono::seconds(1);

  Exporter(Scraper, const ExporterOptions&);

  // On the loop's thread.
  void answer(const http::Request&, http::Reply);
  void shut_down();

  const std::string about_;
  std::uint16_t port_ = 0;
  http::IoLoop loop_;
  ThreadWorker worker_;
  ScrapeDesk desk_;
  std::unique_ptr<http::Server> server_;
  Subscription patience_;
  std::thread thread_;
};

}  // namespace gpuyard::library
