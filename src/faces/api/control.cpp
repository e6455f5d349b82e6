// The routes of control: changes, the setting claims of each owner, and the record of changes.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/try.h"
#include "core/control/change_executor.h"
#include "core/control/setting_controller.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/query_queue.h"
#include "faces/api/responder.h"

namespace gpuyard::api {
namespace {

using ChangesResponder = Responder<protocol::ChangeResults>;

constexpr Duration kSettingReadTimeout = std::chrono::seconds(2);

protocol::ChangeResults view_of(const ControlApi& api,
                                const control::SettingController::Changes& changes) {
  protocol::ChangeResults view;
  view.simulated = is_simulated(api.telemetry);
  for (const control::ChangeResult& change : changes)
    view.changes.push_back(protocol::change_result_of(change));
  return view;
}

// Answers with a single change or its error; of several changes, each has its own.
void respond_with_changes(const ControlApi& api,
                          const Result<control::SettingController::Changes>& changes,
                          const ChangesResponder& respond) {
  if (!changes) return respond(changes.error());
  if (changes->size() == 1 && changes->front().error) return respond(*changes->front().error);
  const bool failed = std::ranges::any_of(
      *changes, [](const control::ChangeResult& one) { return one.error.has_value(); });
  auto view = view_of(api, *changes);
  failed ? respond(std::move(view), protocol::kMultiStatus) : respond(std::move(view));
}

// The lease under which something is to be set.
struct LeaseReference {
  std::optional<std::string> lease = {};
  std::optional<std::uint64_t> fence = {};
};

Result<void> check_lease(const ControlApi& api, const RouteCall& call,
                         const LeaseReference& reference, const std::vector<DeviceId>& gpus) {
  if (call.scope_error && !api.holders_may_control) {
    return Error{Errc::denied,
                 "lease holders cannot change settings here: lease.may_control is false"};
  }
  if (!reference.fence) {
    return Error{Errc::invalid, "fence: required with a lease; its value is in GPUYARD_FENCE"};
  }
  const lease::Lease* lease = api.leases.find(*reference.lease);
  const bool others = lease != nullptr && call.principal.uid != lease->uid &&
                      call.principal.scope < protocol::Scope::admin;
  if (others) return Error{Errc::denied, "the lease belongs to another user"};
  for (const DeviceId& gpu : gpus) {
    GPUYARD_TRY(api.leases.check_holds_gpu(*reference.lease, reference.fence, gpu));
  }
  return {};
}

control::ChangeRequester control_requester_of(const ControlApi& api, const RouteCall& call) {
  const bool admin = call.principal.scope >= protocol::Scope::admin;
  return control_requester_of(api.users, call.principal, admin, call.request_id, call.received);
}

// Under a lease, the owner of the change is the lease.
Result<control::ChangeRequester> lease_requester_of(ControlApi& api, const RouteCall& call,
                                                    const LeaseReference& reference,
                                                    const std::vector<DeviceId>& gpus) {
  control::ChangeRequester requester = control_requester_of(api, call);
  if (!reference.lease) {
    if (!call.scope_error) return requester;
    api.control.record_refusal(requester, "change GPUs without a lease", *call.scope_error);
    return *call.scope_error;
  }
  if (auto valid = check_lease(api, call, reference, gpus); !valid) {
    api.control.record_refusal(requester, "change GPUs under lease " + *reference.lease,
                               valid.error());
    return std::move(valid).error();
  }
  requester.principal = std::exchange(requester.owner, lease::owner_of(*reference.lease));
  // Not there for a change of no GPU, which is checked against no lease.
  if (const lease::Lease* lease = api.leases.find(*reference.lease)) {
    requester.lease_holder = fmt::format("uid {}", lease->uid);
  }
  return requester;
}

// Checks the lease again when the change's turn comes: the lease may have ended by then.
control::AuthorizationCheck authorization_check_of(const ControlApi& api,
                                                   const LeaseReference& reference) {
  if (!reference.lease) return {};
  return [&leases = api.leases, reference](const DeviceId& gpu) {
    return leases.check_holds_gpu(*reference.lease, reference.fence, gpu);
  };
}

void submit_change(ControlApi& api, const RouteCall& call, const std::string& gpus,
                   const protocol::ChangeOptions& options,
                   const Result<control::ChangeAction>& action, const ChangesResponder& respond,
                   const LeaseReference& reference = {}) {
  if (!action) return respond(action.error());
  auto ids = resolve_gpu_ids(*visible_snapshot(api.telemetry, call.principal), gpus);
  if (!ids) return respond(std::move(ids).error());
  auto requester = lease_requester_of(api, call, reference, *ids);
  if (!requester) return respond(std::move(requester).error());
  control::ChangeRequest request{*std::move(requester), *std::move(ids), *action};
  request.force = options.force.value_or(false);
  request.atomic = options.atomic.value_or(false);
  request.dry_run = options.dry_run.value_or(false);
  request.authorization_check = authorization_check_of(api, reference);
  if (!options.wait.value_or(true))
    return respond_with_changes(api, api.control.submit_async(request), respond);
  api.control.submit(request, [&api, respond](const auto& changes) {
    respond_with_changes(api, changes, respond);
  });
}

Result<control::ChangeAction> set_value_action(const Result<Setting>& setting,
                                               const protocol::TimedChangeOptions& body) {
  if (!setting) return setting.error();
  return control::ChangeAction(control::SetValue{*setting, protocol::duration_of(body)});
}

const DeviceInfo* find_device_info(const Snapshot& snapshot, const DeviceId& id) {
  for (const auto& device : snapshot.devices) {
    if (device.info.id == id) return &device.info;
  }
  return nullptr;
}

void respond_with_management(ControlApi& api, const RouteCall& call, const std::string& names,
                             const Responder<protocol::Management>& respond) {
  auto ids = resolve_gpu_ids(*visible_snapshot(api.telemetry, call.principal), names);
  if (!ids) return respond(std::move(ids).error());
  control::read_settings(
      api.loop, api.control, *ids, kSettingReadTimeout,
      [&api, respond](const std::vector<control::SettingReading>& all) {
        const auto latest = api.telemetry.latest();
        protocol::Management view;
        view.simulated = latest->driver.info.simulated;
        view.enabled = api.control.policy().enabled;
        view.notes = api.control.notes();
        for (const control::SettingReading& one : all) {
          if (view.gpus.empty() || view.gpus.back().uuid != one.gpu) {
            const DeviceInfo* info = find_device_info(*latest, one.gpu);
            view.gpus.push_back({info ? std::optional(info->index) : std::nullopt,
                                 one.gpu,
                                 info ? info->name : "",
                                 {}});
          }
          view.gpus.back().settings.push_back(protocol::managed_setting_of(
              one.kind, one.state, api.control.managed_setting(one.gpu, one.kind)));
        }
        respond(std::move(view));
      });
}

// Binds a route that sets what `setting_of` makes of the body.
template <class Body, class SettingOf>
BoundRoute bind_setting(
    const protocol::Route<protocol::ManagedGpus, protocol::ChangeResults, Body>& route,
    SettingOf setting_of) {
  return bind<ControlApi>(
      route, [setting_of](ControlApi& api, const RouteCall& call, const protocol::ManagedGpus& gpus,
                          const Body& body, const ChangesResponder& respond) {
        submit_change(api, call, gpus.id, body, set_value_action(setting_of(body), body), respond,
                      {body.lease, body.fence});
      });
}

BoundRoute bind_restore(
    const protocol::Route<protocol::RestoreQuery, protocol::ChangeResults>& route,
    SettingKind kind) {
  return bind<ControlApi>(
      route, [kind](ControlApi& api, const RouteCall& call, const protocol::RestoreQuery& query,
                    const ChangesResponder& respond) {
        submit_change(api, call, query.id, query, control::ChangeAction(control::Restore{kind}),
                      respond, {query.lease, query.fence});
      });
}

void restore_all(ControlApi& api, const RouteCall& call, const protocol::ManagedGpus& gpus,
                 const protocol::ChangeOptions& options, const ChangesResponder& respond) {
  submit_change(api, call, gpus.id, options, control::ChangeAction(control::Restore{}), respond);
}

void clear_ecc(ControlApi& api, const RouteCall& call, const protocol::ManagedGpus& gpus,
               const protocol::ClearEccRequest& body, const ChangesResponder& respond) {
  const auto counter = protocol::counter_of(body);
  submit_change(api, call, gpus.id, body,
                counter ? Result<control::ChangeAction>(control::ChangeAction(ClearEcc{*counter}))
                        : Result<control::ChangeAction>(Error(counter.error()).in("body")),
                respond);
}

void reset_gpu(ControlApi& api, const RouteCall& call, const protocol::ManagedGpus& gpus,
               const protocol::ChangeOptions& options, const ChangesResponder& respond) {
  submit_change(api, call, gpus.id, options, control::ChangeAction(control::Reset{}), respond);
}

void get_management(ControlApi& api, const RouteCall& call, const NoParams&,
                    const Responder<protocol::Management>& respond) {
  respond_with_management(api, call, "all", respond);
}

void get_management_of(ControlApi& api, const RouteCall& call, const protocol::ManagedGpus& gpus,
                       const Responder<protocol::Management>& respond) {
  respond_with_management(api, call, gpus.id, respond);
}

void get_operations(ControlApi& api, const NoParams&,
                    const Responder<protocol::Operations>& respond) {
  protocol::Operations view;
  for (const control::Operation& one : api.control.operations().all()) {
    view.operations.push_back(protocol::operation_of(one));
  }
  respond(std::move(view));
}

void get_operation(ControlApi& api, const protocol::OperationName& name,
                   const Responder<protocol::Operation>& respond) {
  const control::Operation* operation = api.control.operations().find(name.operation);
  if (operation == nullptr) {
    return respond(Error{Errc::not_found, fmt::format("operation \"{}\" not found", name.operation),
                         "results of older operations are only in the audit log", "gpuyard audit"});
  }
  respond(protocol::operation_of(*operation));
}

void get_audit(ControlApi& api, const RouteCall& call, const protocol::AuditQuery& query,
               const Responder<protocol::Audit>& respond) {
  control::AuditQuery audit_query;
  audit_query.limit = query.limit.value_or(audit_query.limit);
  audit_query.before = query.before;
  if (query.gpu || !call.principal.gpus.empty()) {
    auto ids = resolve_gpu_ids(*visible_snapshot(api.telemetry, call.principal),
                               query.gpu.value_or("all"));
    if (!ids) return respond(std::move(ids).error());
    audit_query.gpus = fmt::format("{}", fmt::join(*ids, ","));
  }
  const auto on_entries = [respond](const Result<std::vector<control::AuditEntry>>& entries) {
    if (!entries) return respond(entries.error());
    respond(protocol::Audit{1, *entries});
  };
  using Entries = std::vector<control::AuditEntry>;
  const auto submit = [&api, audit_query](std::function<void(Result<Entries>)> on_done) {
    return api.control.storage().query_audit(audit_query, std::move(on_done));
  };
  enqueue_query<Entries>(api.queries, call, respond, submit, on_entries);
}

}  // namespace

control::ChangeRequester control_requester_of(const Users& users, const Principal& principal,
                                              bool admin, const std::string& request_id,
                                              TimePoint received) {
  control::ChangeRequester requester{principal.name(), admin, request_id, received};
  requester.over_tcp = !principal.uid;
  requester.credential = principal.credential;
  requester.member = !admin && principal.scope >= protocol::Scope::control;
  if (principal.uid) {
    requester.quota_owner = fmt::format("uid {}", users.quota_owner(*principal.uid));
  }
  return requester;
}

std::vector<BoundRoute> control_routes() {
  return {
      bind(protocol::kManagement, &get_management),
      bind(protocol::kOperations, &get_operations),
      bind(protocol::kOperation, &get_operation),
      bind(protocol::kAudit, &get_audit),
      bind(protocol::kGpuManagement, &get_management_of),
      bind_setting(protocol::kSetPowerLimit,
                   [](const auto& body) { return power_limit(body.power_limit_mw); }),
      bind_restore(protocol::kRestorePowerLimit, SettingKind::power_limit),
      bind_setting(
          protocol::kSetGpuClocks,
          [](const auto& body) { return gpu_clocks(body.min_clock_mhz, body.max_clock_mhz); }),
      bind_restore(protocol::kRestoreGpuClocks, SettingKind::gpu_clocks),
      bind_setting(
          protocol::kSetMemoryClocks,
          [](const auto& body) { return memory_clocks(body.min_clock_mhz, body.max_clock_mhz); }),
      bind_restore(protocol::kRestoreMemoryClocks, SettingKind::memory_clocks),
      bind_setting(protocol::kSetPersistence,
                   [](const auto& body) { return persistence(body.enabled); }),
      bind_restore(protocol::kRestorePersistence, SettingKind::persistence),
      bind_setting(protocol::kSetComputeMode,
                   [](const auto& body) { return protocol::setting_of(body); }),
      bind_restore(protocol::kRestoreComputeMode, SettingKind::compute_mode),
      bind_setting(protocol::kSetEccMode, [](const auto& body) { return ecc(body.enabled); }),
      bind_restore(protocol::kRestoreEccMode, SettingKind::ecc),
      bind(protocol::kRestoreAll, &restore_all),
      bind(protocol::kClearEcc, &clear_ecc),
      bind(protocol::kResetGpu, &reset_gpu),
  };
}

}  // namespace gpuyard::api
