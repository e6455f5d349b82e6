#include "api/lease_wait.h"

#include <utility>

namespace gpuyard::api {

void LeaseWait::begin(Context& context, const lease::Lease& now, Duration at_most,
                      const std::shared_ptr<http::Presence>& client, Done done) {
  if (now.state != lease::State::waiting) return done(now);
  const std::shared_ptr<LeaseWait> wait(new LeaseWait(now, std::move(done)));
  wait->start(context, at_most, client);
}

// What is registered here holds it, and leave() lets go of all.
void LeaseWait::start(Context& context, Duration at_most,
                      const std::shared_ptr<http::Presence>& client) {
  const auto self = shared_from_this();
  attendance_ = context.leases->attend(now_.id, lease::Attendance::poll);
  watch_ = context.leases->watch(now_.id, [self](const lease::Lease& lease) {
    self->now_ = lease;
    if (lease.state != lease::State::waiting) self->finish();
  });
  timer_ = context.loop->call_after(at_most, [self] { self->finish(); });
  if (client) client->on_gone([self] { self->leave(); });
}

void LeaseWait::finish() {
  const auto self = shared_from_this();
  const Done done = std::exchange(done_, nullptr);
  if (done) done(now_);
  leave();
}

void LeaseWait::leave() {
  const auto self = shared_from_this();
  done_ = nullptr;
  attendance_.reset();
  watch_.reset();
  timer_.reset();
}

}  // namespace gpuyard::api
