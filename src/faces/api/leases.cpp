// Claims and what becomes of them. What they mean is leasing's business; who asks is the kernel's.

#include "api/handlers.h"
#include "api/lease_ids.h"
#include "api/lease_reasons.h"
#include "api/lease_stream.h"
#include "api/lease_wait.h"
#include "http/event_stream.h"
#include "http/limits.h"

namespace gpuyard::api {
namespace {

using protocol::LeaseAnswer;
using LeaseResponder = Responder<LeaseAnswer>;
// Shared, because a std::function must be copyable; answered once all the same.
using Shared = std::shared_ptr<LeaseResponder>;

static_assert(protocol::kLatestAnswer + std::chrono::seconds(10) <= http::Limits{}.handler,
              "the server would answer before a claim does");

lease::Leases::Answer answer_with(Context& context, const Viewer& viewer, LeaseResponder respond) {
  const auto shared = std::make_shared<LeaseResponder>(std::move(respond));
  return [&context, viewer, shared](const Result<lease::Lease>& lease) {
    if (!lease) return (*shared)(lease.error());
    (*shared)(answer_of(context, placed_view_of(context, *lease, viewer)));
  };
}

void answer_claim(Context& context, const lease::Lease& lease, const Viewer& viewer, bool stream,
                  Duration at_most, const std::shared_ptr<http::Presence>& client,
                  const Shared& respond) {
  if (stream) {
    return respond->as_is(http::event_stream(std::make_shared<LeaseFeed>(context, lease, viewer)));
  }
  LeaseWait::begin(context, lease, at_most, client,
                   [&context, viewer, respond](const lease::Lease& now) {
                     (*respond)(answer_of(context, placed_view_of(context, now, viewer)));
                   });
}

void claim_lease(Context& context, const Asked& asked, const NoParams&,
                 const protocol::LeaseWish& body, LeaseResponder respond) {
  const lease::Lease* known = context.leases->find(body.id.value_or(""));
  auto wish = protocol::wish_of(body, *context.telemetry.latest(), known ? &known->wish : nullptr);
  if (!wish) {
    // One that is known may not have been read yet.
    const auto closed = context.leases->closed_to_claims();
    if (closed && wish.error().code == Errc::not_found) return respond(*closed);
    return respond(std::move(wish).error().in("body"));
  }
  auto at_most = protocol::answer_within_of(body);
  if (!at_most) return respond(std::move(at_most).error().in("body"));
  const auto shared = std::make_shared<LeaseResponder>(std::move(respond));
  context.leases->claim(caller_of(asked), body.id.value_or(""), *wish,
                        [&context, viewer = viewer_of(asked.principal),
                         stream = body.stream.value_or(false), at_most = *at_most,
                         client = asked.peer.presence, shared](const Result<lease::Lease>& lease) {
                          if (!lease) return (*shared)(lease.error());
                          answer_claim(context, *lease, viewer, stream, at_most, client, shared);
                        });
}

void adopt_lease(Context& context, const Asked& asked, const NoParams&,
                 const protocol::AdoptWish& body, LeaseResponder respond) {
  if (asked.principal.contained) {
    return respond(Error{Errc::denied,
                         "over this socket the daemon cannot know whose process a number is: "
                         "adopt it over gpuyard.sock"});
  }
  const std::string note = body.note.value_or("");
  if (auto fits = protocol::check_length("body: /note", note, protocol::kLongestNote); !fits) {
    return respond(std::move(fits).error());
  }
  if (body.pid == 0)
    return respond(Error{Errc::invalid, "body: /pid: no process has the number 0"});
  context.leases->adopt(caller_of(asked), body.pid, note,
                        answer_with(context, viewer_of(asked.principal), std::move(respond)));
}

void get_lease(Context& context, const Asked& asked, const protocol::LeaseName& name,
               LeaseResponder respond) {
  const auto id = lease_named(*context.leases, name.lease);
  if (!id) return respond(id.error());
  respond(answer_of(
      context, placed_view_of(context, *context.leases->find(*id), viewer_of(asked.principal))));
}

void release_lease(Context& context, const Asked& asked, const protocol::ReleaseQuery& query,
                   LeaseResponder respond) {
  lease::Release how{query.fence, query.force.value_or(false), query.reason.value_or(""), 0};
  if (auto fits = protocol::check_length("reason", how.reason, protocol::kLongestReason); !fits) {
    return respond(std::move(fits).error());
  }
  if (how.force && how.reason.empty()) {
    return respond(Error{Errc::invalid, "force needs a reason, which is kept in the journal"});
  }
  if (query.signal) {
    const auto number = protocol::signal_of(*query.signal);
    if (!number) return respond(number.error());
    how.signal = *number;
  }
  const auto id = lease_named(*context.leases, query.lease);
  if (!id) return respond(id.error());
  context.leases->release(caller_of(asked), *id, how,
                          answer_with(context, viewer_of(asked.principal), std::move(respond)));
}

void renew_lease(Context& context, const Asked& asked, const protocol::LeaseName& name,
                 const protocol::RenewWish& body, LeaseResponder respond) {
  auto ttl = protocol::ttl_of(body);
  if (!ttl) return respond(std::move(ttl).error().in("body"));
  const auto id = lease_named(*context.leases, name.lease);
  if (!id) return respond(id.error());
  context.leases->renew(caller_of(asked), *id, *ttl, body.fence,
                        answer_with(context, viewer_of(asked.principal), std::move(respond)));
}

void add_lease_member(Context& context, const Asked& asked, const protocol::LeaseName& name,
                      const protocol::MemberWish& body, LeaseResponder respond) {
  if (body.pid == 0)
    return respond(Error{Errc::invalid, "body: /pid: no process has the number 0"});
  const auto id = lease_named(*context.leases, name.lease);
  if (!id) return respond(id.error());
  context.leases->add_member(caller_of(asked), *id, body.pid, body.fence,
                             answer_with(context, viewer_of(asked.principal), std::move(respond)));
}

}  // namespace

std::vector<BoundRoute> lease_routes() {
  return {
      bind(protocol::kClaim, &claim_lease), bind(protocol::kAdopt, &adopt_lease),
      bind(protocol::kLease, &get_lease),   bind(protocol::kRelease, &release_lease),
      bind(protocol::kRenew, &renew_lease), bind(protocol::kAddMember, &add_lease_member),
  };
}

}  // namespace gpuyard::api
