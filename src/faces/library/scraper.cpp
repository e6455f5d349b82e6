#include "faces/library/scraper.h"

#include <memory>
#include <string>

#include "faces/metrics/daemon_metrics.h"
#include "faces/metrics/prometheus.h"

namespace gpuyard::library {

Scrape Scraper::scrape(ScrapeFormats wanted) {
  Snapshot now = read_();
  for (DeviceState& device : now.devices) {
    device.query_errors = failures_[device.info.id] += failures(device.sample).size();
  }
  metrics::DaemonMetrics process;
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
