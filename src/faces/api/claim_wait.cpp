#include "faces/api/claim_wait.h"

#include <utility>

namespace gpuyard::api {

void ClaimWait::begin(LeaseApi& api, const lease::Lease& now, Duration at_most,
                      const std::shared_ptr<http::DisconnectNotifier>& client, OnDone on_done) {
  if (now.state != lease::LeaseState::waiting) return on_done(now);
  const std::shared_ptr<ClaimWait> wait(new ClaimWait(now, std::move(on_done)));
  wait->start(api, at_most, client);
}

// The callbacks registered here keep this object alive until cancel() drops them.
void ClaimWait::start(LeaseApi& api, Duration at_most,
                      const std::shared_ptr<http::DisconnectNotifier>& client) {
  const auto self = shared_from_this();
  presence_ = api.leases.mark_present(lease_.id, lease::PresenceKind::poll);
  lease_subscription_ = api.leases.subscribe(lease_.id, [self](const lease::Lease& lease) {
    self->lease_ = lease;
    if (lease.state != lease::LeaseState::waiting) self->finish();
  });
  timer_ = api.loop.call_after(at_most, [self] { self->finish(); });
  if (client) client->on_disconnect([self] { self->cancel(); });
}

void ClaimWait::finish() {
  const auto self = shared_from_this();
  const OnDone on_done = std::exchange(on_done_, nullptr);
  if (on_done) on_done(lease_);
  cancel();
}

void ClaimWait::cancel() {
  const auto self = shared_from_this();
  on_done_ = nullptr;
  presence_.reset();
  lease_subscription_.reset();
  timer_.reset();
}

}  // namespace gpuyard::api
