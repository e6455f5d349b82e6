#include "faces/library/scrape_queue.h"

#include <string>
#include <utility>

#include "faces/metrics/prometheus.h"

namespace gpuyard::library {

void ScrapeQueue::enqueue(http::Reply reply, metrics::Format format) {
  pending_.push_back({std::move(reply), format});
  if (!reading_) start_read();
}

void ScrapeQueue::start_read() {
  in_flight_ = std::exchange(pending_, {});
  ScrapeFormats wanted;
  for (const PendingScrape& one : in_flight_) wanted.add(one.format);
  reading_ = run_on_worker(
      worker_, [scraper = scraper_, wanted] { return scraper->scrape(wanted); },
      [this](const Scrape& scrape) { send_replies(scrape); });
  if (reading_) return;
  for (PendingScrape& one : std::exchange(in_flight_, {})) {
    one.reply(http::error_response(503, "busy", "too many readings are already waiting"));
  }
}

void ScrapeQueue::send_replies(const Scrape& scrape) {
  reading_ = false;
  for (PendingScrape& one : std::exchange(in_flight_, {})) {
    http::Response response(200, std::string(metrics::content_type_of(one.format)),
                            scrape.body(one.format));
    response.headers.push_back({"Vary", "Accept"});
    if (scrape.simulated) response.headers.push_back({"X-Gpuyard-Simulated", "true"});
    one.reply(std::move(response));
  }
  if (!pending_.empty()) start_read();
}

}  // namespace gpuyard::library
