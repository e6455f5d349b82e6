#include "notify/http_sender.h"

#include <utility>

#include "notify/answer.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{1} << 20;

}  // namespace

Fetch fetch_over_network() {
  return [](const http::Origin& origin, const http::ClientRequest& request, Duration deadline) {
    return http::fetch_verdict(origin, request, deadline, kMostAnswer);
  };
}

HttpSender::HttpSender(Loop& loop, SinkConfig sink, std::unique_ptr<Worker> worker, Fetch fetch)
    : loop_(loop),
      sink_(std::make_shared<const SinkConfig>(std::move(sink))),
      fetch_(std::make_shared<const Fetch>(std::move(fetch))),
      worker_(std::move(worker)) {}

void HttpSender::send(std::vector<Notice> notices, Done done) {
  const WallTime now = loop_.wall();
  // The job stands on what it owns: it may be left behind.
  auto ask = [sink = sink_, fetch = fetch_, notices = std::move(notices), now] {
    const auto request = request_for(*sink, notices, now);
    return judge(*sink, (*fetch)(sink->url.origin, request, sink->timeout));
  };
  const auto hear = [here = std::weak_ptr(here_), done](Outcome outcome) {
    if (!here.expired()) done(std::move(outcome));
  };
  if (ask_worker(*worker_, std::move(ask), hear)) return;
  loop_.post([hear] { hear(Outcome::later("the sink's thread is busy")); });
}

}  // namespace gpuyard::notify
