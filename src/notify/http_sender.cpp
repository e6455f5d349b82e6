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
    return http::fetch(origin, request, deadline, kMostAnswer);
  };
}

HttpSender::HttpSender(Loop& loop, SinkConfig sink, std::unique_ptr<Worker> worker, Fetch fetch)
    : loop_(loop),
      sink_(std::make_shared<const SinkConfig>(std::move(sink))),
      fetch_(std::make_shared<const Fetch>(std::move(fetch))),
      worker_(std::move(worker)) {}

void HttpSender::send(std::vector<Notice> notices, Done done) {
  const WallTime now = loop_.wall();
  const bool several = takes_several(sink_->kind);
  const auto told = std::make_shared<const std::vector<Notice>>(
      several ? levels_->completed(std::move(notices), now) : std::move(notices));
  // The job stands on what it owns: it may be left behind.
  auto ask = [sink = sink_, fetch = fetch_, told, now] {
    const auto request = request_for(*sink, *told, now);
    return judge(*sink, (*fetch)(sink->url.origin, request, sink->timeout));
  };
  const auto hear = [weak = std::weak_ptr(levels_), several, told, done](Outcome outcome) {
    const auto levels = weak.lock();
    if (levels == nullptr) return;
    if (several && outcome.kind == Outcome::Kind::taken) levels->note(*told);
    done(std::move(outcome));
  };
  if (ask_worker(*worker_, std::move(ask), hear)) return;
  loop_.post([hear] { hear(Outcome::later("the sink's thread is busy")); });
}

}  // namespace gpuyard::notify
