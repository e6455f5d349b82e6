#include "library/scraper.h"

#include <set>

#include "metrics/prometheus.h"

namespace gpuyard::library {
namespace {

// Causes rather than readings: one lost GPU fails every row for one cause.
std::uint64_t failures(const Sample& sample) {
  std::set<std::string> causes;
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr || missing->reason == MissingReason::not_supported ||
        missing->reason == MissingReason::not_ready) {
      continue;
    }
    causes.insert(describe(*missing));
  }
  return causes.size();
}

}  // namespace

Scrape Scraper::scrape(ScrapeFormats wanted) {
  Snapshot now = read_();
  for (DeviceState& device : now.devices) {
    device.query_errors = failures_[device.info.id] += failures(device.sample);
  }
  metrics::Process process;
  process.version = version_;
  const auto render = [&](metrics::Format format) {
    return std::make_shared<const std::string>(metrics::render(now, process, prefix_, format));
  };
  Scrape scrape;
  scrape.simulated = now.driver.info.simulated;
  if (wanted.text) scrape.text = render(metrics::Format::text);
  if (wanted.openmetrics) scrape.openmetrics = render(metrics::Format::openmetrics);
  return scrape;
}

}  // namespace gpuyard::library
