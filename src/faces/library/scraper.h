// The answer to a Prometheus scrape: the GPUs at that moment, as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "faces/metrics/metrics_writer.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::library {

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

// Thread: worker.
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

}  // namespace gpuyard::library
