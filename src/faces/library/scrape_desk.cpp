#include "library/scrape_desk.h"

#include <string>
#include <utility>

namespace gpuyard::library {

void ScrapeDesk::ask(http::Reply reply, metrics::Format format) {
  asked_.push_back({std::move(reply), format});
  if (!reading_) read();
}

void ScrapeDesk::read() {
  served_ = std::exchange(asked_, {});
  ScrapeFormats wanted;
  for (const Asked& one : served_) wanted.add(one.format);
  reading_ = ask_worker(
      worker_, [scraper = scraper_, wanted] { return scraper->scrape(wanted); },
      [this](const Scrape& scrape) { tell(scrape); });
  if (reading_) return;
  for (Asked& one : std::exchange(served_, {})) {
    one.reply(http::error_response(503, "busy", "too many readings wait already"));
  }
}

void ScrapeDesk::tell(const Scrape& scrape) {
  reading_ = false;
  for (Asked& one : std::exchange(served_, {})) {
    http::Response response(200, std::string(metrics::content_type_of(one.format)),
                            scrape.in(one.format));
    response.headers.push_back({"Vary", "Accept"});
    if (scrape.simulated) response.headers.push_back({"X-Gpuyard-Simulated", "true"});
    one.reply(std::move(response));
  }
  if (!asked_.empty()) read();
}

}  // namespace gpuyard::library
