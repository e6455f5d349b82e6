// Queues scrapes: requests that come at the same time share one reading of the GPUs.
// Thread: io, the exporter's own.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/worker.h"
#include "faces/library/scraper.h"
#include "faces/metrics/metrics_writer.h"
#include "io/http/message.h"

namespace gpuyard::library {

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

}  // namespace gpuyard::library
