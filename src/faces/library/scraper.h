// What a Prometheus scrape is answered with: the GPUs as they are at that moment, as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "device/snapshot.h"
#include "metrics/format.h"

namespace gpuyard::library {

// The formats that somebody waits for.
struct ScrapeFormats {
  bool text = false;
  bool openmetrics = false;

  void add(metrics::Format format) {
    (format == metrics::Format::openmetrics ? openmetrics : text) = true;
  }
};

// One reading in each of them.
struct Scrape {
  std::shared_ptr<const std::string> text = {};
  std::shared_ptr<const std::string> openmetrics = {};
  bool simulated = false;

  const std::shared_ptr<const std::string>& in(metrics::Format format) const {
    return format == metrics::Format::openmetrics ? openmetrics : text;
  }
};

// One thread at a time.
class Scraper {
 public:
  using Read = std::function<Snapshot()>;

  // `read` waits for the driver, with a deadline of its own.
  Scraper(Read read, std::string prefix, std::string version)
      : read_(std::move(read)), prefix_(std::move(prefix)), version_(std::move(version)) {}

  Scrape scrape(ScrapeFormats);

 private:
  Read read_;
  std::string prefix_;
  std::string version_;
  std::map<DeviceId, std::uint64_t> failures_;  // of all scrapes
};

}  // namespace gpuyard::library
