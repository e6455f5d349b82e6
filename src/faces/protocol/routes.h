// The typed half of the route table: every route that the daemon serves, once. src/faces/api binds
// a handler to each, src/faces/client calls them, and both fail to compile when a record changes.
#pragma once

#include <array>

#include "faces/protocol/alerts.h"
#include "faces/protocol/brief.h"
#include "faces/protocol/control.h"
#include "faces/protocol/energy.h"
#include "faces/protocol/events.h"
#include "faces/protocol/history.h"
#include "faces/protocol/host.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/pods.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"
#include "faces/protocol/slurm.h"
#include "faces/protocol/tokens.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::protocol {

inline constexpr std::array kSinkErrors = {Errc::not_found, Errc::busy};

inline constexpr Route<NoParams, Alerts> kAlerts{
    {"GET", "/api/gpu/alerts", "Alerts", Scope::read, GpuScope::some,
     "Firing and pending alerts; also sent as the event `alert` at each change."}};
inline constexpr Route<AlertHistoryQuery, AlertHistory> kAlertHistory{
    {"GET", "/api/gpu/alerts/history", "Alerts", Scope::read, GpuScope::some,
     "Alerts that have fired, newest first; the last 10,000 are stored.", kNotFoundOrUnavailable}};
inline constexpr Route<AlertName, AlertAnswer> kAlert{
    {"GET", "/api/gpu/alerts/{alert}", "Alerts", Scope::read, GpuScope::some,
     "One alert by its number, firing or resolved; the last 10,000 resolved alerts are stored.",
     kNotFoundOrUnavailable}};
inline constexpr Route<AlertName, AlertAnswer, AcknowledgeRequest> kAcknowledge{
    {"POST", "/api/gpu/alerts/{alert}/acknowledge", "Alerts", Scope::control, GpuScope::some,
     "Acknowledges an alert: no more notifications until it is resolved, and it no longer "
     "quarantines its GPU.",
     kNotFoundConflictOrUnavailable}};
inline constexpr Route<NoParams, SinkTests, SinkTestRequest> kTestSinks{
    {"POST", "/api/gpu/alerts/test", "Alerts", Scope::control, GpuScope::whole,
     "Sends a test notification to one sink or to all, and waits up to 15 s for delivery.",
     kSinkErrors}};
inline constexpr Route<NoParams, Silences> kActiveSilences{
    {"GET", "/api/gpu/silences", "Alerts", Scope::read, GpuScope::whole, "Active silences."}};
inline constexpr Route<NoParams, Silence, SilenceRequest> kSilence{
    {"POST", "/api/gpu/silences", "Alerts", Scope::control, GpuScope::some,
     "Mutes notifications of a rule, a GPU or both for a time. Alerts still firing afterwards are "
     "notified.",
     kNotFoundBusyOrUnavailable, 201}};
inline constexpr Route<SilenceName, Silences> kUnsilence{
    {"DELETE", "/api/gpu/silences/{silence}", "Alerts", Scope::control, GpuScope::whole,
     "Ends a silence; returns the remaining ones.", kNotFoundOrUnavailable}};
inline constexpr Route<NoParams, Rules> kRules{{"GET", "/api/gpu/rules", "Alerts", Scope::read,
                                                GpuScope::none,
                                                "The effective alert rules, by name."}};
inline constexpr Route<NoParams, Sinks> kSinks{
    {"GET", "/api/gpu/sinks", "Alerts", Scope::read, GpuScope::none,
     "Notification sinks and their delivery status, without secrets."}};

// The errors of changing a GPU: switched off or not allowed (denied), another owner's (conflict),
// ...
inline constexpr std::array kChangeErrors = {Errc::not_found, Errc::conflict,    Errc::unsupported,
                                             Errc::busy,      Errc::device_lost, Errc::unavailable,
                                             Errc::timed_out};
// The status of a change of several GPUs that failed on at least one; each GPU has its result.
inline constexpr int kMultiStatus = 207;

inline constexpr Route<NoParams, GPUDevicesResponse> kGpuDevices{
    {"GET", "/api/gpu/devices", "GPU", Scope::read, GpuScope::some,
     "All GPUs, read from the driver now. A GPU that fails is listed with its error."}};

inline constexpr Route<DeviceName, Device> kDevice{
    {"GET", "/api/gpu/devices/{id}", "GPU", Scope::read, GpuScope::some,
     "All readings of one GPU, from the newest snapshot.", kNotFoundOrUnavailable}};

inline constexpr Route<DeviceName, DeviceProcesses> kDeviceProcesses{
    {"GET", "/api/gpu/devices/{id}/processes", "GPU", Scope::read, GpuScope::some,
     "Processes on one GPU, with arguments for the caller's own processes.",
     kNotFoundOrUnavailable}};

inline constexpr Route<HistoryQuery, History> kHistory{
    {"GET", "/api/gpu/devices/{id}/history", "GPU", Scope::read, GpuScope::some,
     "History of one metric of a GPU: single readings for the last hour, ten-second means for the "
     "last day, minute means for the last 30 days.",
     kNotFoundOrUnavailable, 200, "text/csv"}};

inline constexpr Route<HistoryColumnsQuery, HistoryColumns> kHistoryColumns{
    {"GET", "/api/gpu/history", "GPU", Scope::read, GpuScope::some,
     "History of several metrics of several GPUs, in columns. The response has an ETag: a repeated "
     "request within a step gets 304.",
     kNotFoundOrUnavailable}};

inline constexpr Route<ProcessSpansQuery, ProcessSpans> kProcessSpans{
    {"GET", "/api/gpu/processes", "GPU", Scope::read, GpuScope::some,
     "Past processes on the GPUs, newest first: when each started and ended, its user and its peak "
     "memory. Stored for 30 days, at most 100,000; processes that start and end between two "
     "samples, five seconds apart, are missed.",
     kNotFoundOrUnavailable}};

inline constexpr Route<BottlenecksQuery, Bottlenecks> kBottlenecks{
    {"GET", "/api/gpu/bottlenecks", "GPU", Scope::read, GpuScope::some,
     "Past bottlenecks of each GPU: the spells of each cause, newest first, and each cause's share "
     "of the covered time. Stored for 30 days, at most 100,000 spells of ten seconds or more.",
     kNotFoundOrUnavailable}};

inline constexpr Route<NoParams, DriverInfo> kDriver{
    {.method = "GET",
     .pattern = "/api/gpu/driver",
     .tag = "GPU",
     .gpus = GpuScope::none,
     .summary = "Versions of the driver, the highest supported CUDA and NVML; 503 if NVML is not "
                "initialised.",
     .failures = kUnavailable,
     .errors = ErrorShape::detail}};

inline constexpr Route<SnapshotQuery, Snapshot> kSnapshot{
    {"GET", "/api/gpu/snapshot", "GPU", Scope::read, GpuScope::some,
     "All readings of all GPUs, or why they are missing, from the newest snapshot or, with `at`, "
     "for a past time from the history.",
     kUnavailable}};

inline constexpr Route<NoParams, Brief> kBrief{
    {"GET", "/api/gpu/brief", "GPU", Scope::read, GpuScope::some,
     "A summary of the machine in about 150 bytes per GPU, for fleet views: use, user, load and "
     "health of each GPU, and the number of waiting claims and firing alerts. The response has an "
     "ETag."}};

inline constexpr Route<EventsRequest, Text> kEvents{
    {"GET", "/api/gpu/events", "GPU", Scope::read, GpuScope::whole,
     "Server-sent events: `device`, `operation` and `lease` events have an ID and are never "
     "skipped; `snapshot` and, every five seconds, `load` events may be; `resync` has the complete "
     "state for clients that cannot resume from their last ID.",
     kNotFound, 200, "", "text/event-stream", "Last-Event-ID"}};

inline constexpr Route<PowerStreamRequest, Text> kPowerStream{
    {"GET", "/api/gpu/stream/power", "GPU", Scope::read, GpuScope::some,
     "GPU power up to a hundred times per second, as server-sent events `power`. GPUs are read "
     "this often only while a client listens.",
     kNotFoundOrUnavailable, 200, "", "text/event-stream"}};

inline constexpr Route<NoParams, EnergyReport> kEnergy{
    {"GET", "/api/gpu/energy", "Energy", Scope::read, GpuScope::whole,
     "Energy each GPU has used since it was first seen, by account, as of the last reading."}};

inline constexpr Route<NoParams, EnergyWindow, EnergyWindowRequest> kBeginEnergyWindow{
    {"POST", "/api/gpu/energy/windows", "Energy", Scope::lease, GpuScope::some,
     "Starts an energy measurement with fresh readings. The window survives a restart of the "
     "daemon, and expires after its maximum time.",
     kNotFoundOrUnavailable, 201}};

inline constexpr Route<NoParams, EnergyWindows> kEnergyWindows{
    {"GET", "/api/gpu/energy/windows", "Energy", Scope::read, GpuScope::whole,
     "All open windows, as of the last reading."}};

inline constexpr Route<WindowName, EnergyWindow> kEnergyWindow{
    {"GET", "/api/gpu/energy/windows/{window}", "Energy", Scope::read, GpuScope::some,
     "Energy used in a window so far, with fresh readings.", kNotFound}};

inline constexpr Route<WindowName, EnergyWindow> kEndEnergyWindow{
    {"DELETE", "/api/gpu/energy/windows/{window}", "Energy", Scope::lease, GpuScope::some,
     "Ends a window with fresh readings and returns the energy used. Only for the user who started "
     "it, or an administrator.",
     kNotFound}};

inline constexpr Route<NoParams, Management> kManagement{
    {"GET", "/api/gpu/manage", "Control", Scope::read, GpuScope::some,
     "Settings of all GPUs: current values, allowed ranges, and the users' claims.", kUnavailable}};

inline constexpr Route<NoParams, Operations> kOperations{
    {"GET", "/api/gpu/manage/operations", "Control", Scope::read, GpuScope::whole,
     "Queued, running and recently finished changes."}};

inline constexpr Route<OperationName, Operation> kOperation{
    {"GET", "/api/gpu/manage/operations/{operation}", "Control", Scope::read, GpuScope::whole,
     "One change, by the ID returned for its request.", kNotFound}};

inline constexpr Route<AuditQuery, Audit> kAudit{
    {"GET", "/api/gpu/manage/audit", "Control", Scope::control, GpuScope::some,
     "Audit log: who changed what, from which value to which, with the result; includes refused "
     "requests.",
     kNotFoundOrUnavailable}};

inline constexpr Route<ManagedGpus, Management> kGpuManagement{
    {"GET", "/api/gpu/manage/{id}", "Control", Scope::read, GpuScope::some,
     "Settings of one or several GPUs.", kNotFoundOrUnavailable}};

inline constexpr bool kForHolders = true;

constexpr RouteInfo change_route(std::string_view method, std::string_view pattern,
                                 std::string_view summary, bool for_holders = false,
                                 Scope scope = Scope::control) {
  RouteInfo route{method, pattern, "Control", scope, GpuScope::some, summary};
  route.failures = kChangeErrors;
  route.also_answers_with = kMultiStatus;
  route.for_holders = for_holders;
  route.audit = AuditWriter::control;
  return route;
}

constexpr RouteInfo restore_route(std::string_view pattern, bool for_holders = false) {
  return change_route("DELETE", pattern,
                      "Withdraws the caller's setting: the settings of others take effect, or the "
                      "original value is restored.",
                      for_holders);
}

inline constexpr Route<ManagedGpus, ChangeResults, PowerLimitRequest> kSetPowerLimit{change_route(
    "PUT", "/api/gpu/manage/{id}/power-limit",
    "Sets the power limit. If several users set one, the lowest is in effect.", kForHolders)};

inline constexpr Route<RestoreQuery, ChangeResults> kRestorePowerLimit{
    restore_route("/api/gpu/manage/{id}/power-limit", kForHolders)};

inline constexpr Route<ManagedGpus, ChangeResults, LockedClocksRequest> kSetGpuClocks{change_route(
    "PUT", "/api/gpu/manage/{id}/gpu-clocks", "Locks the GPU clocks to a range.", kForHolders)};

inline constexpr Route<RestoreQuery, ChangeResults> kRestoreGpuClocks{
    restore_route("/api/gpu/manage/{id}/gpu-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, ChangeResults, LockedClocksRequest> kSetMemoryClocks{
    change_route("PUT", "/api/gpu/manage/{id}/memory-clocks", "Locks the memory clocks to a range.",
                 kForHolders)};

inline constexpr Route<RestoreQuery, ChangeResults> kRestoreMemoryClocks{
    restore_route("/api/gpu/manage/{id}/memory-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, ChangeResults, EnableRequest> kSetPersistence{
    change_route("PUT", "/api/gpu/manage/{id}/persistence",
                 "Sets persistence mode: whether the driver keeps an unused GPU initialised.")};

inline constexpr Route<RestoreQuery, ChangeResults> kRestorePersistence{
    restore_route("/api/gpu/manage/{id}/persistence")};

inline constexpr Route<ManagedGpus, ChangeResults, ComputeModeRequest> kSetComputeMode{
    change_route("PUT", "/api/gpu/manage/{id}/compute-mode", "Sets the compute mode.")};

inline constexpr Route<RestoreQuery, ChangeResults> kRestoreComputeMode{
    restore_route("/api/gpu/manage/{id}/compute-mode")};

inline constexpr Route<ManagedGpus, ChangeResults, EnableRequest> kSetEccMode{change_route(
    "PUT", "/api/gpu/manage/{id}/ecc", "Sets ECC mode; takes effect at the next reset.")};

inline constexpr Route<RestoreQuery, ChangeResults> kRestoreEccMode{
    restore_route("/api/gpu/manage/{id}/ecc")};

inline constexpr Route<ManagedGpus, ChangeResults, ChangeOptions> kRestoreAll{change_route(
    "POST", "/api/gpu/manage/{id}/restore",
    "Withdraws all the caller's settings of these GPUs; with `force`, those of all users.")};

inline constexpr Route<ManagedGpus, ChangeResults, ClearEccRequest> kClearEcc{
    change_route("POST", "/api/gpu/manage/{id}/clear-ecc", "Clears the ECC error counters.")};

inline constexpr Route<ManagedGpus, ChangeResults, ChangeOptions> kResetGpu{change_route(
    "POST", "/api/gpu/manage/{id}/reset",
    "Resets a GPU that no process is using. All GPUs are unavailable during the reset.", false,
    Scope::admin)};

inline constexpr std::array kClaimErrors = {Errc::not_found, Errc::conflict, Errc::busy,
                                            Errc::unavailable};

inline constexpr Route<NoParams, Leases> kLeases{
    {"GET", "/api/gpu/leases", "Leases", Scope::read, GpuScope::some,
     "Current leases: holder, GPUs, start time and usage so far."}};

inline constexpr Route<NoParams, LeaseAnswer, LeaseRequest> kClaim{
    {"POST", "/api/gpu/leases", "Leases", Scope::lease, GpuScope::some,
     "Claims GPUs: all of them or none, first come, first served. Responds once they are granted, "
     "or with `waiting` after `answer_within_s`; repeat the request with the same ID. With "
     "`stream`, responds with server-sent events `lease` for the queue position and each change; "
     "the lease ends soon after the stream.",
     kClaimErrors}};

inline constexpr Route<NoParams, LeaseAnswer, AdoptRequest> kAdopt{
    {"POST", "/api/gpu/leases/adopt", "Leases", Scope::lease, GpuScope::whole,
     "Creates a lease for the GPUs that a process and its descendants of the same user already "
     "use. Only for the caller's own process. Descendants of other users are listed and do not "
     "join the lease.",
     kClaimErrors}};

inline constexpr Route<LeaseName, LeaseAnswer> kLease{
    {"GET", "/api/gpu/leases/{lease}", "Leases", Scope::read, GpuScope::some,
     "One lease, waiting, held, draining or ended within the last day.",
     kNotFoundConflictOrUnavailable}};

inline constexpr Route<ReleaseQuery, ReleaseAnswer> kRelease{
    {"DELETE", "/api/gpu/leases/{lease}", "Leases", Scope::lease, GpuScope::some,
     "Releases a lease or cancels a claim, in any state. The GPUs can be leased again once the "
     "processes have exited. A daemon without CAP_KILL cannot signal the processes of other users: "
     "it lists them, and the caller signals them.",
     kNotFoundConflictOrUnavailable}};

inline constexpr Route<LeaseName, LeaseAnswer, RenewRequest> kRenew{
    {"POST", "/api/gpu/leases/{lease}/renew", "Leases", Scope::lease, GpuScope::some,
     "Extends a detached lease.", kNotFoundConflictOrUnavailable}};

inline constexpr Route<LeaseName, LeaseAnswer, MemberRequest> kAddMember{
    {"POST", "/api/gpu/leases/{lease}/processes", "Leases", Scope::lease, GpuScope::whole,
     "Adds a process of the caller to the caller's lease.", kNotFoundConflictOrUnavailable}};

inline constexpr Route<NoParams, Queue> kQueue{
    {"GET", "/api/gpu/queue", "Leases", Scope::read, GpuScope::whole,
     "Waiting claims in order, with reasons; processes that use GPUs without a lease; GPUs "
     "withheld from leasing."}};

inline constexpr Route<NoParams, Load> kLoad{
    {"GET", "/api/gpu/load", "Leases", Scope::read, GpuScope::whole,
     "Leased GPUs and the number of waiting claims; also the event `load`, every five seconds."}};

inline constexpr Route<FreeQuery, FreeGpus> kFree{
    {"GET", "/api/gpu/free", "Leases", Scope::read, GpuScope::some,
     "GPUs the caller could lease now without waiting. Changes nothing.", kUnavailable}};

inline constexpr Route<UsageQuery, Usage> kUsage{
    {"GET", "/api/gpu/usage", "Leases", Scope::read, GpuScope::whole,
     "GPU-hours and energy under leases by user, day, GPU, lease or job; 400 whole days in UTC.",
     kUnavailable, 200, "text/csv"}};

inline constexpr Route<ManagedGpus, CordonResult, CordonRequest> kCordon{
    {"PUT", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, GpuScope::some,
     "Withholds these GPUs from new leases. Current leases continue.", kNotFoundOrUnavailable}};

inline constexpr Route<ManagedGpus, CordonResult> kUncordon{
    {"DELETE", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, GpuScope::some,
     "Allows leases of these GPUs again.", kNotFoundOrUnavailable}};

inline constexpr Route<ManagedGpus, CordonResult, CordonRequest> kOverrideWithholding{
    {"PUT", "/api/gpu/manage/{id}/override", "Leases", Scope::control, GpuScope::some,
     "Leases these GPUs although their state or their use is unknown, until that changes; 409 if "
     "they are withheld for a known reason.",
     kNotFoundConflictOrUnavailable}};

inline constexpr std::array kMakeTokenErrors = {Errc::conflict, Errc::busy, Errc::not_found,
                                                Errc::unavailable};
inline constexpr std::array kRevokeUserTokensErrors = {Errc::busy, Errc::unavailable};

// A token makes no tokens: a thief of one could otherwise keep its rights without limit.
constexpr RouteInfo token_route(std::string_view method, std::string_view pattern,
                                std::string_view summary, std::span<const Errc> failures = {}) {
  RouteInfo route{method, pattern, "Tokens", Scope::lease, GpuScope::whole, summary, failures};
  route.local = true;
  return route;
}

inline constexpr Route<NoParams, Tokens> kTokens{
    token_route("GET", "/api/gpu/tokens",
                "The caller's tokens or, for an administrator, all tokens; never their secrets.")};

inline constexpr Route<NoParams, NewToken, TokenRequest> kMakeToken{[] {
  RouteInfo route = token_route(
      "POST", "/api/gpu/tokens",
      "Creates a token and returns its secret once. It never has more permissions than its user.",
      kMakeTokenErrors);
  route.status = 201;
  return route;
}()};

inline constexpr Route<TokenName, Tokens> kRevokeToken{
    token_route("DELETE", "/api/gpu/tokens/{token}", "Revokes a token and closes its streams.",
                kNotFoundBusyOrUnavailable)};

inline constexpr Route<TokenOwner, Tokens> kRevokeUserTokens{token_route(
    "DELETE", "/api/gpu/tokens", "Revokes all tokens of one user.", kRevokeUserTokensErrors)};

inline constexpr Route<NoParams, Text> kMetrics{
    {.method = "GET",
     .pattern = "/metrics",
     .tag = "Observability",
     .scope = Scope::metrics,
     .gpus = GpuScope::whole,
     .summary = "All metrics, in the Prometheus text format or, by Accept, in OpenMetrics.",
     .produces = "text/plain",
     .also_produces = "application/openmetrics-text",
     .ignores_query = true}};

inline constexpr Route<NoParams, Health> kHealth{{"GET", "/health", "Observability", Scope::open,
                                                  GpuScope::none,
                                                  "Liveness: the daemon's event loop is running."}};

inline constexpr Route<NoParams, Readiness> kReady{
    {.method = "GET",
     .pattern = "/ready",
     .tag = "Observability",
     .scope = Scope::open,
     .gpus = GpuScope::none,
     .summary = "Readiness, with the reason: 503 until the driver is initialised, and while no GPU "
                "can be used.",
     .also_answers_with = 503}};

inline constexpr Route<NoParams, Text> kOpenApi{{"GET", "/openapi.json", "Observability",
                                                 Scope::open, GpuScope::none,
                                                 "This description, as OpenAPI 3.1."}};

}  // namespace gpuyard::protocol
