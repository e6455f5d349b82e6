// A claim that is answered when it is granted, or late enough that its caller asks again. Lives on
// the io thread.
#pragma once

#include <functional>
#include <memory>

#include "api/lease_view.h"
#include "http/message.h"

namespace gpuyard::api {

class LeaseWait : public std::enable_shared_from_this<LeaseWait> {
 public:
  using Done = std::function<void(const lease::Lease&)>;

  // Calls done with the lease once it does not wait any more, or after `at_most` as it is then;
  // never when the client left before. Until then its claim is attended to.
  static void begin(Context&, const lease::Lease& now, Duration at_most,
                    const std::shared_ptr<http::Presence>& client, Done done);

 private:
  LeaseWait(const lease::Lease& now, Done done) : now_(now), done_(std::move(done)) {}
  void start(Context&, Duration at_most, const std::shared_ptr<http::Presence>& client);
  void finish();
  void leave();

  lease::Lease now_;
  Done done_;
  Subscription attendance_;
  Subscription watch_;
  Subscription timer_;
};

}  // namespace gpuyard::api
