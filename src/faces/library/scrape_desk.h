// Who waits for a scrape's answer: those who ask at the same time share one reading of the GPUs.
#pragma once

#include <memory>
#include <vector>

#include "base/worker.h"
#include "http/message.h"
#include "library/scraper.h"

namespace gpuyard::library {

// On the loop's thread.
class ScrapeDesk {
 public:
  // The worker tells no more when this is gone.
  ScrapeDesk(Worker& worker, Scraper scraper)
      : worker_(worker), scraper_(std::make_shared<Scraper>(std::move(scraper))) {}

  // Who comes while a reading is under way gets the next one: it is as new as what was asked for.
  void ask(http::Reply, metrics::Format);

 private:
  struct Asked {
    http::Reply reply;
    metrics::Format format;
  };

  void read();
  void tell(const Scrape&);

  Worker& worker_;
  std::shared_ptr<Scraper> scraper_;  // used by the worker alone
  bool reading_ = false;
  std::vector<Asked> asked_;
  std::vector<Asked> served_;  // by the reading that is under way
};

}  // namespace gpuyard::library
