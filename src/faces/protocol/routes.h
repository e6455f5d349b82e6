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
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"
#include "faces/protocol/slurm.h"
#include "faces/protocol/tokens.h"

namespace gpuyard::protocol {

// The routes of alerts.

inline constexpr std::array kNeedsAlert = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kSilences = {Errc::not_found, Errc::busy, Errc::unavailable};
inline constexpr std::array kNeedsSilence = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kNeedsSink = {Errc::not_found, Errc::busy};

inline constexpr Route<NoParams, Alerts> kAlerts{
    {"GET", "/api/gpu/alerts", "Alerts", Scope::read, Gpus::some,
     "Firing and pending alerts; also sent as the event `alert` at each change."}};
inline constexpr Route<AlertHistoryQuery, AlertHistory> kAlertHistory{
    {"GET", "/api/gpu/alerts/history", "Alerts", Scope::read, Gpus::some,
     "Alerts that have fired, newest first; the last 10,000 are stored.", kNeedsSilence}};
inline constexpr Route<AlertName, AlertAnswer> kAlert{
    {"GET", "/api/gpu/alerts/{alert}", "Alerts", Scope::read, Gpus::some,
     "One alert by its number, firing or resolved; the last 10,000 resolved alerts are stored.",
     kNeedsSilence}};
inline constexpr Route<AlertName, AlertAnswer, AcknowledgeWish> kAcknowledge{
    {"POST", "/api/gpu/alerts/{alert}/acknowledge", "Alerts", Scope::control, Gpus::some,
     "Acknowledges an alert: no more notifications until it is resolved, and it no longer "
     "quarantines its GPU.",
     kNeedsAlert}};
inline constexpr Route<NoParams, SinkTests, SinkTestWish> kTestSinks{
    {"POST", "/api/gpu/alerts/test", "Alerts", Scope::control, Gpus::whole,
     "Sends a test notification to one sink or to all, and waits up to 15 s for delivery.",
     kNeedsSink}};
inline constexpr Route<NoParams, Silences> kSilencesNow{
    {"GET", "/api/gpu/silences", "Alerts", Scope::read, Gpus::whole, "Active silences."}};
inline constexpr Route<NoParams, Silence, SilenceWish> kSilence{
    {"POST", "/api/gpu/silences", "Alerts", Scope::control, Gpus::some,
     "Mutes notifications of a rule, a GPU or both for a time. Alerts still firing afterwards are "
     "notified.",
     kSilences, 201}};
inline constexpr Route<SilenceName, Silences> kUnsilence{
    {"DELETE", "/api/gpu/silences/{silence}", "Alerts", Scope::control, Gpus::whole,
     "Ends a silence; returns the remaining ones.", kNeedsSilence}};
inline constexpr Route<NoParams, Rules> kRules{{"GET", "/api/gpu/rules", "Alerts", Scope::read,
                                                Gpus::none, "The effective alert rules, by name."}};
inline constexpr Route<NoParams, Sinks> kSinks{
    {"GET", "/api/gpu/sinks", "Alerts", Scope::read, Gpus::none,
     "Notification sinks and their delivery status, without secrets."}};

inline constexpr std::array kNeedsDriver = {Errc::unavailable};
inline constexpr std::array kNeedsDevice = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kNeedsGpus = {Errc::not_found};
inline constexpr std::array kNeedsGpusAndRoom = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kNeedsWindow = {Errc::not_found};
// The errors of changing a GPU: switched off or not allowed (denied), another owner's (conflict),
// ...
inline constexpr std::array kChanges = {Errc::not_found, Errc::conflict,    Errc::unsupported,
                                        Errc::busy,      Errc::device_lost, Errc::unavailable,
                                        Errc::timed_out};
inline constexpr std::array kNeedsOperation = {Errc::not_found};
// The status of a change of several GPUs that failed on at least one; each GPU has its outcome.
inline constexpr int kMultiStatus = 207;

inline constexpr Route<NoParams, GPUDevicesResponse> kGpuDevices{
    {"GET", "/api/gpu/devices", "GPU", Scope::read, Gpus::some,
     "All GPUs, read from the driver now. A GPU that fails is listed with its error."}};

inline constexpr Route<DeviceName, Device> kDevice{
    {"GET", "/api/gpu/devices/{id}", "GPU", Scope::read, Gpus::some,
     "All readings of one GPU, from the newest snapshot.", kNeedsDevice}};

inline constexpr Route<DeviceName, DeviceProcesses> kDeviceProcesses{
    {"GET", "/api/gpu/devices/{id}/processes", "GPU", Scope::read, Gpus::some,
     "Processes on one GPU, with arguments for the caller's own processes.", kNeedsDevice}};

inline constexpr Route<HistoryQuery, History> kHistory{
    {"GET", "/api/gpu/devices/{id}/history", "GPU", Scope::read, Gpus::some,
     "History of one metric of a GPU: single readings for the last hour, ten-second means for the "
     "last day, minute means for the last 30 days.",
     kNeedsDevice, 200, "text/csv"}};

inline constexpr Route<HistoryColumnsQuery, HistoryColumns> kHistoryColumns{
    {"GET", "/api/gpu/history", "GPU", Scope::read, Gpus::some,
     "History of several metrics of several GPUs, in columns. The response has an ETag: a repeated "
     "request within a step gets 304.",
     kNeedsDevice}};

inline constexpr Route<StaysQuery, Stays> kStays{
    {"GET", "/api/gpu/processes", "GPU", Scope::read, Gpus::some,
     "Past processes on the GPUs, newest first: when each started and ended, its user and its peak "
     "memory. Stored for 30 days, at most 100,000; processes that start and end between two "
     "samples, five seconds apart, are missed.",
     kNeedsDevice}};

inline constexpr Route<BottlenecksQuery, Bottlenecks> kBottlenecks{
    {"GET", "/api/gpu/bottlenecks", "GPU", Scope::read, Gpus::some,
     "Past bottlenecks of each GPU: the spells of each cause, newest first, and each cause's share "
     "of the covered time. Stored for 30 days, at most 100,000 spells of ten seconds or more.",
     kNeedsDevice}};

inline constexpr Route<NoParams, DriverInfo> kDriver{
    {.method = "GET",
     .pattern = "/api/gpu/driver",
     .tag = "GPU",
     .gpus = Gpus::none,
     .summary = "Versions of the driver, the highest supported CUDA and NVML; 503 if NVML is not "
                "initialised.",
     .failures = kNeedsDriver,
     .errors = ErrorShape::detail}};

inline constexpr Route<SnapshotQuery, Snapshot> kSnapshot{
    {"GET", "/api/gpu/snapshot", "GPU", Scope::read, Gpus::some,
     "All readings of all GPUs, or why they are missing, from the newest snapshot or, with `at`, "
     "for a past time from the history.",
     kNeedsDriver}};

inline constexpr Route<NoParams, Brief> kBrief{
    {"GET", "/api/gpu/brief", "GPU", Scope::read, Gpus::some,
     "A summary of the machine in about 150 bytes per GPU, for fleet views: use, user, load and "
     "health of each GPU, and the number of waiting claims and firing alerts. The response has an "
     "ETag."}};

inline constexpr Route<EventsRequest, Text> kEvents{
    {"GET", "/api/gpu/events", "GPU", Scope::read, Gpus::whole,
     "Server-sent events: `device`, `operation` and `lease` events have an ID and are never "
     "skipped; `snapshot` and, every five seconds, `load` events may be; `resync` has the complete "
     "state for clients that cannot resume from their last ID.",
     kNeedsGpus, 200, "", "text/event-stream", "Last-Event-ID"}};

inline constexpr Route<PowerStreamRequest, Text> kPowerStream{
    {"GET", "/api/gpu/stream/power", "GPU", Scope::read, Gpus::some,
     "GPU power up to a hundred times per second, as server-sent events `power`. GPUs are read "
     "this often only while a client listens.",
     kNeedsDevice, 200, "", "text/event-stream"}};

inline constexpr Route<NoParams, EnergyReport> kEnergy{
    {"GET", "/api/gpu/energy", "Energy", Scope::read, Gpus::whole,
     "Energy each GPU has used since it was first seen, by account, as of the last reading."}};

inline constexpr Route<NoParams, EnergyWindow, EnergyWindowWish> kBeginEnergyWindow{
    {"POST", "/api/gpu/energy/windows", "Energy", Scope::lease, Gpus::some,
     "Starts an energy measurement with fresh readings. The window survives a restart of the "
     "daemon, and expires after its maximum time.",
     kNeedsGpusAndRoom, 201}};

inline constexpr Route<NoParams, EnergyWindows> kEnergyWindows{
    {"GET", "/api/gpu/energy/windows", "Energy", Scope::read, Gpus::whole,
     "All open windows, as of the last reading."}};

inline constexpr Route<WindowName, EnergyWindow> kEnergyWindow{
    {"GET", "/api/gpu/energy/windows/{window}", "Energy", Scope::read, Gpus::some,
     "Energy used in a window so far, with fresh readings.", kNeedsWindow}};

inline constexpr Route<WindowName, EnergyWindow> kEndEnergyWindow{
    {"DELETE", "/api/gpu/energy/windows/{window}", "Energy", Scope::lease, Gpus::some,
     "Ends a window with fresh readings and returns the energy used. Only for the user who started "
     "it, or an administrator.",
     kNeedsWindow}};

inline constexpr Route<NoParams, Management> kManagement{
    {"GET", "/api/gpu/manage", "Control", Scope::read, Gpus::some,
     "Settings of all GPUs: current values, allowed ranges, and the users' claims.", kNeedsDriver}};

inline constexpr Route<NoParams, Operations> kOperations{
    {"GET", "/api/gpu/manage/operations", "Control", Scope::read, Gpus::whole,
     "Queued, running and recently finished changes."}};

inline constexpr Route<OperationName, Operation> kOperation{
    {"GET", "/api/gpu/manage/operations/{operation}", "Control", Scope::read, Gpus::whole,
     "One change, by the ID returned for its request.", kNeedsOperation}};

inline constexpr Route<AuditQuery, Audit> kAudit{
    {"GET", "/api/gpu/manage/audit", "Control", Scope::control, Gpus::some,
     "Audit log: who changed what, from which value to which, with the result; includes refused "
     "requests.",
     kNeedsDevice}};

inline constexpr Route<ManagedGpus, Management> kManagementOf{
    {"GET", "/api/gpu/manage/{id}", "Control", Scope::read, Gpus::some,
     "Settings of one or several GPUs.", kNeedsDevice}};

inline constexpr bool kForHolders = true;

constexpr RouteInfo changing(std::string_view method, std::string_view pattern,
                             std::string_view summary, bool for_holders = false,
                             Scope scope = Scope::control) {
  RouteInfo route{method, pattern, "Control", scope, Gpus::some, summary};
  route.failures = kChanges;
  route.also_answers_with = kMultiStatus;
  route.for_holders = for_holders;
  route.audit = Audited::control;
  return route;
}

constexpr RouteInfo restoring(std::string_view pattern, bool for_holders = false) {
  return changing("DELETE", pattern,
                  "Withdraws the caller's setting: the settings of others take effect, or the "
                  "original value is restored.",
                  for_holders);
}

inline constexpr Route<ManagedGpus, Changes, PowerLimitWish> kSetPowerLimit{changing(
    "PUT", "/api/gpu/manage/{id}/power-limit",
    "Sets the power limit. If several users set one, the lowest is in effect.", kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestorePowerLimit{
    restoring("/api/gpu/manage/{id}/power-limit", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, ClocksWish> kSetGpuClocks{changing(
    "PUT", "/api/gpu/manage/{id}/gpu-clocks", "Locks the GPU clocks to a range.", kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestoreGpuClocks{
    restoring("/api/gpu/manage/{id}/gpu-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, ClocksWish> kSetMemoryClocks{
    changing("PUT", "/api/gpu/manage/{id}/memory-clocks", "Locks the memory clocks to a range.",
             kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestoreMemoryClocks{
    restoring("/api/gpu/manage/{id}/memory-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, EnabledWish> kSetPersistence{
    changing("PUT", "/api/gpu/manage/{id}/persistence",
             "Sets persistence mode: whether the driver keeps an unused GPU initialised.")};

inline constexpr Route<RestoreQuery, Changes> kRestorePersistence{
    restoring("/api/gpu/manage/{id}/persistence")};

inline constexpr Route<ManagedGpus, Changes, ComputeModeWish> kSetComputeMode{
    changing("PUT", "/api/gpu/manage/{id}/compute-mode", "Sets the compute mode.")};

inline constexpr Route<RestoreQuery, Changes> kRestoreComputeMode{
    restoring("/api/gpu/manage/{id}/compute-mode")};

inline constexpr Route<ManagedGpus, Changes, EnabledWish> kSetEccMode{
    changing("PUT", "/api/gpu/manage/{id}/ecc", "Sets ECC mode; takes effect at the next reset.")};

inline constexpr Route<RestoreQuery, Changes> kRestoreEccMode{
    restoring("/api/gpu/manage/{id}/ecc")};

inline constexpr Route<ManagedGpus, Changes, ChangeWish> kRestoreAll{changing(
    "POST", "/api/gpu/manage/{id}/restore",
    "Withdraws all the caller's settings of these GPUs; with `force`, those of all users.")};

inline constexpr Route<ManagedGpus, Changes, ClearEccWish> kClearEcc{
    changing("POST", "/api/gpu/manage/{id}/clear-ecc", "Clears the ECC error counters.")};

inline constexpr Route<ManagedGpus, Changes, ChangeWish> kResetGpu{
    changing("POST", "/api/gpu/manage/{id}/reset",
             "Resets a GPU that no process is using. All GPUs are unavailable during the reset.",
             false, Scope::admin)};

inline constexpr std::array kNeedsLease = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kClaims = {Errc::not_found, Errc::conflict, Errc::busy,
                                       Errc::unavailable};

inline constexpr Route<NoParams, Leases> kLeases{
    {"GET", "/api/gpu/leases", "Leases", Scope::read, Gpus::some,
     "Current leases: holder, GPUs, start time and usage so far."}};

inline constexpr Route<NoParams, LeaseAnswer, LeaseWish> kClaim{
    {"POST", "/api/gpu/leases", "Leases", Scope::lease, Gpus::some,
     "Claims GPUs: all of them or none, first come, first served. Responds once they are granted, "
     "or with `waiting` after `answer_within_s`; repeat the request with the same ID. With "
     "`stream`, responds with server-sent events `lease` for the queue position and each change; "
     "the lease ends soon after the stream.",
     kClaims}};

inline constexpr Route<NoParams, LeaseAnswer, AdoptWish> kAdopt{
    {"POST", "/api/gpu/leases/adopt", "Leases", Scope::lease, Gpus::whole,
     "Creates a lease for the GPUs that a process and its descendants of the same user already "
     "use. Only for the caller's own process. Descendants of other users are listed and do not "
     "join the lease.",
     kClaims}};

inline constexpr Route<LeaseName, LeaseAnswer> kLease{
    {"GET", "/api/gpu/leases/{lease}", "Leases", Scope::read, Gpus::some,
     "One lease, waiting, held, draining or ended within the last day.", kNeedsLease}};

inline constexpr Route<ReleaseQuery, ReleaseAnswer> kRelease{
    {"DELETE", "/api/gpu/leases/{lease}", "Leases", Scope::lease, Gpus::some,
     "Releases a lease or cancels a claim, in any state. The GPUs can be leased again once the "
     "processes have exited. A daemon without CAP_KILL cannot signal the processes of other users: "
     "it lists them, and the caller signals them.",
     kNeedsLease}};

inline constexpr Route<LeaseName, LeaseAnswer, RenewWish> kRenew{
    {"POST", "/api/gpu/leases/{lease}/renew", "Leases", Scope::lease, Gpus::some,
     "Extends a detached lease.", kNeedsLease}};

inline constexpr Route<LeaseName, LeaseAnswer, MemberWish> kAddMember{
    {"POST", "/api/gpu/leases/{lease}/processes", "Leases", Scope::lease, Gpus::whole,
     "Adds a process of the caller to the caller's lease.", kNeedsLease}};

inline constexpr Route<NoParams, Queue> kQueue{
    {"GET", "/api/gpu/queue", "Leases", Scope::read, Gpus::whole,
     "Waiting claims in order, with reasons; processes that use GPUs without a lease; GPUs "
     "withheld from leasing."}};

inline constexpr Route<NoParams, Load> kLoad{
    {"GET", "/api/gpu/load", "Leases", Scope::read, Gpus::whole,
     "Leased GPUs and the number of waiting claims; also the event `load`, every five seconds."}};

inline constexpr std::array kOffers = {Errc::unavailable};

inline constexpr Route<FreeQuery, FreeGpus> kFree{
    {"GET", "/api/gpu/free", "Leases", Scope::read, Gpus::some,
     "GPUs the caller could lease now without waiting. Changes nothing.", kOffers}};

inline constexpr Route<UsageQuery, Usage> kUsage{
    {"GET", "/api/gpu/usage", "Leases", Scope::read, Gpus::whole,
     "GPU-hours and energy under leases by user, day, GPU, lease or job; 400 whole days in UTC.",
     kNeedsDriver, 200, "text/csv"}};

inline constexpr Route<ManagedGpus, Cordoned, CordonWish> kCordon{
    {"PUT", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, Gpus::some,
     "Withholds these GPUs from new leases. Current leases continue.", kNeedsDevice}};

inline constexpr Route<ManagedGpus, Cordoned> kUncordon{
    {"DELETE", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, Gpus::some,
     "Allows leases of these GPUs again.", kNeedsDevice}};

inline constexpr std::array kOverrides = {Errc::not_found, Errc::conflict, Errc::unavailable};

inline constexpr Route<ManagedGpus, Cordoned, CordonWish> kOverrideWithholding{
    {"PUT", "/api/gpu/manage/{id}/override", "Leases", Scope::control, Gpus::some,
     "Leases these GPUs although their state or their use is unknown, until that changes; 409 if "
     "they are withheld for a known reason.",
     kOverrides}};

inline constexpr std::array kMakesToken = {Errc::conflict, Errc::busy, Errc::not_found,
                                           Errc::unavailable};
inline constexpr std::array kNeedsToken = {Errc::not_found, Errc::busy, Errc::unavailable};
inline constexpr std::array kRevokesTokens = {Errc::busy, Errc::unavailable};

// A token makes no tokens: whoever has found one could keep what it gives for ever.
constexpr RouteInfo about_tokens(std::string_view method, std::string_view pattern,
                                 std::string_view summary, std::span<const Errc> failures = {}) {
  RouteInfo route{method, pattern, "Tokens", Scope::lease, Gpus::whole, summary, failures};
  route.local = true;
  return route;
}

inline constexpr Route<NoParams, Tokens> kTokens{
    about_tokens("GET", "/api/gpu/tokens",
                 "The caller's tokens or, for an administrator, all tokens; never their secrets.")};

inline constexpr Route<NoParams, NewToken, TokenWish> kMakeToken{[] {
  RouteInfo route = about_tokens(
      "POST", "/api/gpu/tokens",
      "Creates a token and returns its secret once. It never has more permissions than its user.",
      kMakesToken);
  route.status = 201;
  return route;
}()};

inline constexpr Route<TokenName, Tokens> kRevokeToken{about_tokens(
    "DELETE", "/api/gpu/tokens/{token}", "Revokes a token and closes its streams.", kNeedsToken)};

inline constexpr Route<TokensOf, Tokens> kRevokeTokensOf{
    about_tokens("DELETE", "/api/gpu/tokens", "Revokes all tokens of one user.", kRevokesTokens)};

inline constexpr Route<NoParams, Text> kMetrics{
    {.method = "GET",
     .pattern = "/metrics",
     .tag = "Observability",
     .scope = Scope::metrics,
     .gpus = Gpus::whole,
     .summary = "All metrics, in the Prometheus text format or, by Accept, in OpenMetrics.",
     .produces = "text/plain",
     .also_produces = "application/openmetrics-text",
     .ignores_query = true}};

inline constexpr Route<NoParams, Health> kHealth{{"GET", "/health", "Observability", Scope::open,
                                                  Gpus::none,
                                                  "Liveness: the daemon's event loop is running."}};

inline constexpr Route<NoParams, Readiness> kReady{
    {.method = "GET",
     .pattern = "/ready",
     .tag = "Observability",
     .scope = Scope::open,
     .gpus = Gpus::none,
     .summary = "Readiness, with the reason: 503 until the driver is initialised, and while no GPU "
                "can be used.",
     .also_answers_with = 503}};

inline constexpr Route<NoParams, Text> kOpenApi{{"GET", "/openapi.json", "Observability",
                                                 Scope::open, Gpus::none,
                                                 "This description, as OpenAPI 3.1."}};

}  // namespace gpuyard::protocol
