// An HTTP server for Prometheus inside another program: a loop on one thread, and a worker thread
// that waits for the driver.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/worker.h"
#include "faces/metrics/metrics_writer.h"
#include "gpu/device/snapshot.h"
#include "io/http/message.h"
#include "io/http/server.h"

namespace gpuyard::library {

// The answer to a Prometheus scrape: the GPUs at that moment, as text.

// The formats that the waiting scrapers requested.
struct ScrapeFormats {
  bool text = false;
  bool openmetrics = false;

  void add(metrics::Format format) {
    (format == metrics::Format::openmetrics ? openmetrics : text) = true;
  }
};

// One reading, in each requested format.
struct Scrape {
  std::shared_ptr<const std::string> text = {};
  std::shared_ptr<const std::string> openmetrics = {};
  bool simulated = false;

  const std::shared_ptr<const std::string>& body(metrics::Format format) const {
    return format == metrics::Format::openmetrics ? openmetrics : text;
  }
};

// Used by one thread at a time.
class Scraper {
 public:
  using SnapshotReader = std::function<Snapshot()>;

  // `read` waits for the driver, with its own deadline.
  Scraper(SnapshotReader read, std::string prefix, std::string version)
      : read_(std::move(read)), prefix_(std::move(prefix)), version_(std::move(version)) {}

  Scrape scrape(ScrapeFormats);

 private:
  SnapshotReader read_;
  std::string prefix_;
  std::string version_;
  std::map<DeviceId, std::uint64_t> failures_;  // over all scrapes
};

// Queues scrapes: requests that come at the same time share one reading of the GPUs.

// Lives on the loop's thread.
class ScrapeQueue {
 public:
  // The worker makes no calls after this is destroyed.
  ScrapeQueue(Worker& worker, Scraper scraper)
      : worker_(worker), scraper_(std::make_shared<Scraper>(std::move(scraper))) {}

  // A request that comes during a reading gets the next one, so that no answer is older than its
  // request.
  void enqueue(http::Reply, metrics::Format);

 private:
  struct PendingScrape {
    http::Reply reply;
    metrics::Format format;
  };

  void start_read();
  void send_replies(const Scrape&);

  Worker& worker_;
  std::shared_ptr<Scraper> scraper_;  // used by the worker alone
  bool reading_ = false;
  std::vector<PendingScrape> pending_;
  std::vector<PendingScrape> in_flight_;  // by the reading that is under way
};

struct ExporterOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;               // 0: any that is free
  std::vector<std::string> hosts = {};  // further names that a Host field may carry
  std::string version = {};
};

// Start and destroy it on one thread, other than its own.
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

  // On the loop's thread.
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
