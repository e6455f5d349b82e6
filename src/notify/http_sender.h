// The way to a sink over the network: requests from a thread of its own. Inner header.
#pragma once

#include <functional>
#include <memory>

#include "http/client.h"
#include "notify/sender.h"
#include "notify/told_levels.h"

namespace gpuyard::notify {

using Fetch = std::function<Result<http::ClientResponse>(const http::Origin&,
                                                         const http::ClientRequest&, Duration)>;
Fetch fetch_over_network();

class HttpSender final : public Sender {
 public:
  HttpSender(Loop&, SinkConfig, std::unique_ptr<Worker>, Fetch);
  void send(std::vector<Notice> notices, Done done) override;

 private:
  Loop& loop_;
  std::shared_ptr<const SinkConfig> sink_;
  std::shared_ptr<const Fetch> fetch_;
  // Also whether this is here still, for answers that come later.
  std::shared_ptr<ToldLevels> levels_ = std::make_shared<ToldLevels>();
  std::unique_ptr<Worker> worker_;
};

}  // namespace gpuyard::notify
