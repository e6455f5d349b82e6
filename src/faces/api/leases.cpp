// The routes of claims and leases. Leasing decides what they mean; the kernel says who the caller
// is.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/saturated.h"
#include "base/try.h"
#include "core/processes/identify.h"
#include "faces/api/bound_route.h"
#include "faces/api/claim_wait.h"
#include "faces/api/context.h"
#include "faces/api/lease_cache.h"
#include "faces/api/lease_stream.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"
#include "faces/protocol/energy.h"
#include "io/http/event_stream.h"
#include "io/http/limits.h"

namespace gpuyard::api {
namespace {

using protocol::LeaseAnswer;
using LeaseResponder = Responder<LeaseAnswer>;

static_assert(protocol::kMaxAnswerTimeout + std::chrono::seconds(10) <=
                  http::Limits{}.handler_timeout,
              "the server would answer before a claim does");

// The id of a lease that the caller names. A token of some GPUs is for no lease of others.
Result<std::string> find_visible_lease_id(const LeaseApi& api, const RouteCall& call,
                                          std::string_view name) {
  const Viewer viewer = viewer_of(call.principal);
  // An administrator names the leases of all users.
  auto id = resolve_lease_id(api.leases, name, viewer.admin ? std::nullopt : viewer.uid);
  if (!id || call.principal.gpus.empty()) return id;
  const lease::Lease* lease = api.leases.find(*id);
  if (lease == nullptr) return lease::unknown_lease_error(*id);
  const std::vector<DeviceId>& gpus = lease->gpus.empty() ? lease->spec.allowed_gpus : lease->gpus;
  if (!gpus.empty() && call.principal.can_see_all(gpus)) return id;
  return Error{Errc::denied, "the lease has GPUs that this token does not include"};
}

// The lease itself as last decided, which may not be on the disk yet.
Result<lease::Lease> find_latest_lease(const LeaseApi& api, const RouteCall& call,
                                       std::string_view name) {
  const auto id = GPUYARD_TRY(find_visible_lease_id(api, call, name));
  const lease::Lease* const decided = api.leases.find_latest(id);
  if (decided == nullptr) return lease::unknown_lease_error(id);
  return *decided;
}

// A remote caller is not a process of this machine, so a PID from it has no meaning here.
Result<void> check_local(const RouteCall& call, std::string_view what) {
  if (!call.principal.has_credential()) return {};
  return Error{Errc::denied, fmt::format("{} needs a process of this machine, which a token does "
                                         "not identify: do it on the machine or over ssh",
                                         what)};
}

// The claim as the caller may make it.
Result<lease::LeaseSpec> lease_spec_for(const LeaseApi& api, const RouteCall& call,
                                        const protocol::LeaseRequest& body,
                                        const lease::LeaseSpec* known) {
  auto spec =
      protocol::lease_spec_of(body, *visible_snapshot(api.facts.telemetry, call.principal), known);
  const bool is_remote = call.principal.has_credential() || call.peer.relayed;
  if (!spec || !is_remote) return spec;
  if (spec->binding != lease::Binding::detached) {
    return Error{Errc::denied,
                 "/binding: a remote lease cannot be bound to a process on another machine; use "
                 "\"detached\" with a ttl_s, or `ssh HOST gpuyard run -- COMMAND`"};
  }
  if (call.principal.gpus.empty()) return spec;
  if (spec->allowed_gpus.empty()) spec->allowed_gpus = call.principal.gpus;
  std::ranges::sort(spec->allowed_gpus);
  if (call.principal.can_see_all(spec->allowed_gpus)) return spec;
  return Error{Errc::denied, "/among: the token does not include all of these GPUs"};
}

lease::LeaseManager::OnLease answer_with(LeaseApi& api, const Viewer& viewer,
                                         const LeaseResponder& respond) {
  return [&api, viewer, respond](const Result<lease::Lease>& lease) {
    if (!lease) return respond(lease.error());
    respond(answer_of(api.facts, view_with_position(api.facts, *lease, viewer)));
  };
}

// The audit's action for a forced change, or for a change by an administrator to another user's
// lease. Empty for the holder's own changes: they are in the records of leases.
using LeaseAction = std::optional<std::string>;

LeaseAction lease_action_of(const RouteCall& call, const lease::Lease& lease, std::string_view what,
                            bool forced = false) {
  if (call.principal.uid == lease.uid && !forced) return std::nullopt;
  const std::string holder =
      lease.pod.empty() ? fmt::format("uid {}", lease.uid) : "pod " + lease.pod;
  return fmt::format("{} lease {} of {}", what, lease.id, holder);
}

void report_lease_action(const RouteCall& call, const LeaseAction& action,
                         const std::vector<DeviceId>& gpus, bool forced = false) {
  if (!action) return;
  gpus.empty() ? call.report_action(*action) : call.report_action(*action, gpus, forced);
}

lease::LeaseManager::OnLease report_and_answer(LeaseApi& api, const RouteCall& call,
                                               const lease::Lease& before,
                                               const LeaseAction& action,
                                               const LeaseResponder& respond) {
  return [&api, call, before, action, respond](const Result<lease::Lease>& lease) {
    if (!lease) return respond(lease.error());
    const bool changed = lease->expires_at != before.expires_at ||
                         lease->processes.size() != before.processes.size();
    if (changed) report_lease_action(call, action, lease->gpus);
    respond(answer_of(api.facts, view_with_position(api.facts, *lease, viewer_of(call.principal))));
  };
}

void answer_claim(LeaseApi& api, const lease::Lease& lease, const Viewer& viewer, bool stream,
                  Duration at_most, const std::shared_ptr<http::DisconnectNotifier>& client,
                  const LeaseResponder& respond) {
  if (stream) {
    return respond.send(http::event_stream(std::make_shared<LeaseStream>(api, lease, viewer)));
  }
  ClaimWait::begin(api, lease, at_most, client, [&api, viewer, respond](const lease::Lease& now) {
    respond(answer_of(api.facts, view_with_position(api.facts, now, viewer)));
  });
}

void claim_lease(LeaseApi& api, const RouteCall& call, const NoParams&,
                 const protocol::LeaseRequest& body, const LeaseResponder& respond) {
  const lease::Lease* known = api.leases.find(body.id.value_or(""));
  auto spec = lease_spec_for(api, call, body, known ? &known->spec : nullptr);
  if (!spec) {
    // A known lease may not have been read from disk yet.
    const auto closed = api.leases.claim_error();
    if (closed && spec.error().code == Errc::not_found) return respond(*closed);
    return respond(std::move(spec).error().in("body"));
  }
  api.leases.claim(
      caller_of(call), body.id.value_or(""), *spec,
      [&api, viewer = viewer_of(call.principal), stream = body.stream.value_or(false),
       at_most = protocol::answer_timeout_of(body), client = call.peer.disconnect_notifier,
       respond](const Result<lease::Lease>& lease) {
        if (!lease) return respond(lease.error());
        answer_claim(api, *lease, viewer, stream, at_most, client, respond);
      });
}

void adopt_lease(LeaseApi& api, const RouteCall& call, const NoParams&,
                 const protocol::AdoptRequest& body, const LeaseResponder& respond) {
  if (auto local = check_local(call, "an adoption"); !local) return respond(local.error());
  if (call.principal.contained) {
    return respond(Error{Errc::denied,
                         "the daemon cannot identify processes over this socket; adopt the process "
                         "over gpuyard.sock"});
  }
  const auto answer = answer_with(api, viewer_of(call.principal), respond);
  api.leases.adopt(caller_of(call), body.pid, body.note.value_or(""),
                   [call, pid = body.pid, answer](const Result<lease::Lease>& lease) {
                     if (lease) {
                       const auto what = fmt::format("adopt PID {} as", pid);
                       report_lease_action(call, lease_action_of(call, *lease, what), lease->gpus);
                     }
                     answer(lease);
                   });
}

void get_lease(LeaseApi& api, const RouteCall& call, const protocol::LeaseName& name,
               const LeaseResponder& respond) {
  const auto id = find_visible_lease_id(api, call, name.lease);
  if (!id) return respond(id.error());
  const lease::Lease* lease = api.leases.find(*id);
  if (lease == nullptr) return respond(lease::unknown_lease_error(*id));
  respond(answer_of(api.facts, view_with_position(api.facts, *lease, viewer_of(call.principal))));
}

// Returns the processes whose signal is left to the caller. A token does not identify a process of
// this machine, so its holder gets no numbers.
protocol::UnsignalledProcesses unsignalled_of(const RouteCall& call, const std::string& signal,
                                              const lease::SignalResult& result) {
  auto own_namespace = processes::own_pid_namespace();
  protocol::UnsignalledProcesses left{result.lease.id,
                                      signal,
                                      std::move(own_namespace.boot_id),
                                      std::move(own_namespace.pid_namespace),
                                      {},
                                      0,
                                      ""};
  if (!result.checked) {
    left.why = "the processes could not be checked in time";
  } else if (call.principal.has_credential()) {
    left.why = "the daemon may not signal them";
  }
  if (!left.why.empty()) return left;
  for (const auto& [process, why] : result.failures) {
    if (left.processes.size() == protocol::kMaxUnsignalled) break;
    left.processes.push_back(
        {process.pid, to_milliseconds(process.started.time_since_epoch()), why.text()});
  }
  left.left_out = result.failures.size() - left.processes.size();
  return left;
}

// For clients that do not know the field `unsignalled`.
std::string note_of(const lease::SignalResult& result) {
  if (!result.checked) return "no signal was sent yet: the processes could not be checked in time";
  const auto& [process, why] = result.failures.front();
  const std::string others =
      result.failures.size() == 1 ? "" : fmt::format(" and {} more", result.failures.size() - 1);
  if (why.code != Errc::denied) return fmt::format("not signalled: {}{}", why.text(), others);
  return fmt::format("not signalled: process {} runs as another user{}", process.pid, others);
}

protocol::ReleaseAnswer release_view(LeaseApi& api, const RouteCall& call,
                                     const lease::Lease& lease) {
  return {answer_of(api.facts, view_with_position(api.facts, lease, viewer_of(call.principal))),
          std::nullopt};
}

void signal_processes(LeaseApi& api, const RouteCall& call, const std::string& id,
                      const std::string& signal, int number,
                      const Responder<protocol::ReleaseAnswer>& respond) {
  const auto answer = [&api, call, signal, respond](const Result<lease::SignalResult>& result) {
    if (!result) return respond(result.error());
    auto view = release_view(api, call, result->lease);
    if (!result->checked || !result->failures.empty()) {
      view.unsignalled = unsignalled_of(call, signal, *result);
      view.lease.detail += (view.lease.detail.empty() ? "" : "; ") + note_of(*result);
    }
    respond(std::move(view));
  };
  api.leases.signal(caller_of(call), id, number, answer);
}

// A daemon without CAP_KILL leaves signals to a client on its machine. A token is used from
// elsewhere, and its signal is refused before anything is released.
Result<void> check_signal(const LeaseApi& api, const RouteCall& call, const lease::Lease& lease,
                          const std::string& signal) {
  const bool has_processes =
      lease.state == lease::LeaseState::held || lease.state == lease::LeaseState::draining;
  if (!call.principal.has_credential() || !has_processes || api.facts.users.can_signal(lease.uid)) {
    return {};
  }
  return Error{Errc::denied,
               "the lease was not released: this daemon may not signal the processes of other "
               "users, and a caller with a token or certificate is not on this machine",
               "",
               fmt::format("gpuyard -H ssh://HOST lease release {} --signal {}", lease.id, signal)};
}

void release_lease(LeaseApi& api, const RouteCall& call, const protocol::ReleaseQuery& query,
                   const Responder<protocol::ReleaseAnswer>& respond) {
  const lease::ReleaseOptions options{query.fence, query.force.value_or(false),
                                      query.reason.value_or("")};
  int signal = 0;
  if (options.force && options.reason.empty()) {
    return respond(Error{Errc::invalid, "force needs a reason, which is recorded in the journal"});
  }
  if (query.signal) {
    const auto number = protocol::signal_of(*query.signal);
    if (!number) return respond(number.error());
    signal = *number;
  }
  const auto before = find_latest_lease(api, call, query.lease);
  if (!before) return respond(before.error());
  if (signal != 0) {
    if (auto may = check_signal(api, call, *before, *query.signal); !may) {
      return respond(may.error());
    }
  }
  const bool ends = before->state == lease::LeaseState::waiting ||
                    before->state == lease::LeaseState::held ||
                    (before->state == lease::LeaseState::draining && options.force);
  auto action = ends ? lease_action_of(call, *before, "release", options.force) : std::nullopt;
  if (action && !options.reason.empty()) *action += ": " + options.reason;
  api.leases.release(
      caller_of(call), before->id, options,
      [&api, call, action, gpus = before->gpus, force = options.force, signal,
       name = query.signal.value_or(""), respond](const Result<lease::Lease>& lease) {
        if (!lease) return respond(lease.error());
        report_lease_action(call, action, gpus, force);
        if (signal == 0) return respond(release_view(api, call, *lease));
        signal_processes(api, call, lease->id, name, signal, respond);
      });
}

void renew_lease(LeaseApi& api, const RouteCall& call, const protocol::LeaseName& name,
                 const protocol::RenewRequest& body, const LeaseResponder& respond) {
  const auto before = find_latest_lease(api, call, name.lease);
  if (!before) return respond(before.error());
  api.leases.renew(
      caller_of(call), before->id, duration_from_seconds(body.ttl_s), body.fence,
      report_and_answer(api, call, *before, lease_action_of(call, *before, "renew"), respond));
}

void add_lease_member(LeaseApi& api, const RouteCall& call, const protocol::LeaseName& name,
                      const protocol::MemberRequest& body, const LeaseResponder& respond) {
  if (auto local = check_local(call, "this"); !local) return respond(local.error());
  const auto before = find_latest_lease(api, call, name.lease);
  if (!before) return respond(before.error());
  const auto what = fmt::format("add PID {} to", body.pid);
  api.leases.add_member(
      caller_of(call), before->id, body.pid, body.fence,
      report_and_answer(api, call, *before, lease_action_of(call, *before, what), respond));
}

using usage::UsageGrouping;
using usage::UsageQuery;
using UsageResponder = Responder<protocol::Usage>;

constexpr double kDefaultUsageSeconds = std::chrono::seconds(std::chrono::days(7)).count();

UsageQuery usage_query_of(const protocol::UsageQuery& query, WallTime now) {
  UsageQuery usage_query;
  usage_query.grouping = query.by.value_or(usage_query.grouping);
  const std::chrono::duration<double> since(query.since_s.value_or(kDefaultUsageSeconds));
  const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(since);
  usage_query.since = std::chrono::floor<std::chrono::days>(now - ago);
  return usage_query;
}

protocol::UserNames user_names_of(const Users& users, const usage::UsageReport& answer) {
  protocol::UserNames names;
  for (const usage::UsageTotal& sum : answer.totals) {
    if (!sum.uid || sum.uid == lease::kPodsUid) continue;
    if (auto name = users.name_of(*sum.uid)) names.emplace(*sum.uid, *std::move(name));
  }
  return names;
}

// Calls `on_done` once the users' names are known, or cannot be had in time.
void resolve_names(const Users& users, const UsageQuery& query, const usage::UsageReport& answer,
                   std::function<void()> on_done) {
  if (query.grouping != UsageGrouping::user) return on_done();
  std::vector<std::uint32_t> uids;
  for (const usage::UsageTotal& sum : answer.totals) {
    if (sum.uid != lease::kPodsUid) uids.push_back(sum.uid.value_or(0));
  }
  users.resolve(uids, std::move(on_done));
}

void answer_with(const UsageResponder& respond, const protocol::Usage& usage, bool csv) {
  if (!csv) return respond(usage);
  auto body = std::make_shared<const std::string>(protocol::kUsageCsvHeader + csv_of(usage));
  respond.send({200, "text/csv; charset=utf-8", std::move(body)});
}

void get_usage(UsageApi& api, const RouteCall& call, const protocol::UsageQuery& query,
               const UsageResponder& respond) {
  const bool csv = query.format == protocol::TextFormat::csv;
  UsageQuery usage_query = usage_query_of(query, api.loop.wall());
  usage_query.simulated = is_simulated(api.telemetry);
  const auto begin_query = [&api, respond, usage_query, csv](const std::function<void()>& on_done) {
    const auto on_report = [&api, respond, usage_query, csv,
                            on_done](Result<usage::UsageReport> result) {
      on_done();
      if (!result) return respond(std::move(result).error());
      const auto answer = std::make_shared<const usage::UsageReport>(*std::move(result));
      resolve_names(api.users, usage_query, *answer, [&api, respond, usage_query, csv, answer] {
        auto usage = protocol::usage_of(*answer, usage_query, user_names_of(api.users, *answer));
        usage.notes = api.usage.notes();
        protocol::put_estimates(usage, api.tariff);
        answer_with(respond, usage, csv);
      });
    };
    api.usage.query(usage_query, on_report);
  };
  if (!api.queries.try_enqueue(requester_of(call), begin_query)) respond(too_many_queries());
}

}  // namespace

std::vector<BoundRoute> lease_routes() {
  return {
      bind(protocol::kClaim, &claim_lease), bind(protocol::kAdopt, &adopt_lease),
      bind(protocol::kLease, &get_lease),   bind(protocol::kRelease, &release_lease),
      bind(protocol::kRenew, &renew_lease), bind(protocol::kAddMember, &add_lease_member),
  };
}

std::vector<BoundRoute> usage_routes() {
  return {bind(protocol::kUsage, &get_usage)};
}

}  // namespace gpuyard::api
