// An HTTP server for Prometheus inside another program: a loop on one thread, and a worker thread
// that waits for the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/worker.h"
#include "faces/library/scrape_queue.h"
#include "faces/library/scraper.h"
#include "io/http/message.h"
#include "io/http/server.h"

namespace gpuyard::library {

struct ExporterOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;               // 0: any that is free
  std::vector<std::string> hosts = {};  // further names that a Host field may carry
  std::string version = {};
};

// REQUIRES: started and destroyed on one thread, other than its own.
class Exporter {
 public:
  // Errors: those of http::Server::listen_tcp(), and Errc::unavailable if there is no thread or
  // file descriptor for the loop.
  static Result<std::unique_ptr<Exporter>> start(Scraper, const ExporterOptions&);
  // Answers requests that are under way, for kShutdownGrace at most.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  // A scraper keeps its connection, so few are needed.
  static constexpr std::size_t kMaxConnections = 64;
  static constexpr Duration kShutdownGrace = std::chrono::seconds(1);

  Exporter(Scraper, const ExporterOptions&);

  // Thread: io, its own.
  void handle(const http::Request&, http::Reply);
  void shut_down();

  const std::string about_;
  std::uint16_t port_ = 0;
  http::IoLoop loop_;
  ThreadWorker worker_;
  ScrapeQueue scrape_queue_;
  std::unique_ptr<http::Server> server_;
  Subscription shutdown_timeout_;
  std::thread thread_;
};

}  // namespace gpuyard::library
