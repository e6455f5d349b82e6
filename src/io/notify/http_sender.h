// The way to a sink over the network: requests from a thread of its own. Inner header.
#pragma once

#include <functional>
#include <memory>

#include "http/client.h"
#include "notify/sender.h"

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
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // for answers that come later
  std::unique_ptr<Worker> worker_;
};

}  // namespace gpuyard::notify
