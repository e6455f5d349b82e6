// The typed half of the route table: every route that the daemon serves, once. src/faces/api binds
// a handler to each, src/faces/client calls them, and both fail to compile when a record changes.
#pragma once

#include <array>

#include "protocol/alerts.h"
#include "protocol/brief.h"
#include "protocol/control.h"
#include "protocol/energy.h"
#include "protocol/events.h"
#include "protocol/history.h"
#include "protocol/leases.h"
#include "protocol/resources.h"
#include "protocol/route.h"
#include "protocol/slurm.h"
#include "protocol/tokens.h"

namespace gpuyard::protocol {

// The routes of alerts.

inline constexpr std::array kNeedsAlert = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kSilences = {Errc::not_found, Errc::busy, Errc::unavailable};
inline constexpr std::array kNeedsSilence = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kNeedsSink = {Errc::not_found, Errc::busy};

inline constexpr Route<NoParams, Alerts> kAlerts{
    {"GET", "/api/gpu/alerts", "Alerts", Scope::read, Gpus::some,
     "What fires now, and what is about to; also the event `alert`, at each change."}};
inline constexpr Route<AlertHistoryQuery, AlertHistory> kAlertHistory{
    {"GET", "/api/gpu/alerts/history", "Alerts", Scope::read, Gpus::some,
     "Alerts that fired, the newest first; the last 10,000 are kept.", kNeedsSilence}};
inline constexpr Route<AlertName, AlertAnswer> kAlert{
    {"GET", "/api/gpu/alerts/{alert}", "Alerts", Scope::read, Gpus::some,
     "One alert by its number, firing or over; of those that are over, the last 10,000 are kept.",
     kNeedsSilence}};
inline constexpr Route<AlertName, AlertAnswer, AcknowledgeWish> kAcknowledge{
    {"POST", "/api/gpu/alerts/{alert}/acknowledge", "Alerts", Scope::control, Gpus::some,
     "Somebody looks after it: nobody is told of it again until it is over, and it keeps its GPU "
     "in quarantine no longer.",
     kNeedsAlert}};
inline constexpr Route<NoParams, SinkTests, SinkTestWish> kTestSinks{
    {"POST", "/api/gpu/alerts/test", "Alerts", Scope::control, Gpus::whole,
     "Sends a test to one sink or to all, and waits 15 s at most for them to take it.",
     kNeedsSink}};
inline constexpr Route<NoParams, Silences> kSilencesNow{
    {"GET", "/api/gpu/silences", "Alerts", Scope::read, Gpus::whole,
     "What nobody is told of, and until when."}};
inline constexpr Route<NoParams, Silence, SilenceWish> kSilence{
    {"POST", "/api/gpu/silences", "Alerts", Scope::control, Gpus::some,
     "Tells nobody of a rule, a GPU or both for a while. What then still fires is told.", kSilences,
     201}};
inline constexpr Route<SilenceName, Silences> kUnsilence{
    {"DELETE", "/api/gpu/silences/{silence}", "Alerts", Scope::control, Gpus::whole,
     "Ends a silence; answers with those that are left.", kNeedsSilence}};
inline constexpr Route<NoParams, Rules> kRules{
    {"GET", "/api/gpu/rules", "Alerts", Scope::read, Gpus::none, "The rules in force, by name."}};
inline constexpr Route<NoParams, Sinks> kSinks{
    {"GET", "/api/gpu/sinks", "Alerts", Scope::read, Gpus::none,
     "Where alerts go, and whether they arrive. No secret is shown."}};

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
     "All GPUs, read from the driver at this moment. A GPU that fails is listed with its error."}};

inline constexpr Route<DeviceName, Device> kDevice{
    {"GET", "/api/gpu/devices/{id}", "GPU", Scope::read, Gpus::some,
     "The full picture of one GPU, from the newest snapshot.", kNeedsDevice}};

inline constexpr Route<DeviceName, DeviceProcesses> kDeviceProcesses{
    {"GET", "/api/gpu/devices/{id}/processes", "GPU", Scope::read, Gpus::some,
     "Who uses one GPU, with the arguments of those processes that are the caller's own.",
     kNeedsDevice}};

inline constexpr Route<HistoryQuery, History> kHistory{
    {"GET", "/api/gpu/devices/{id}/history", "GPU", Scope::read, Gpus::some,
     "What one metric of a GPU was: each reading of the last hour, ten seconds of the last day, "
     "minutes of the last 30 days.",
     kNeedsDevice, 200, "text/csv"}};

inline constexpr Route<HistoryColumnsQuery, HistoryColumns> kHistoryColumns{
    {"GET", "/api/gpu/history", "GPU", Scope::read, Gpus::some,
     "What several metrics of several GPUs were, in columns. The answer has an ETag: a client that "
     "asks again within a step gets 304.",
     kNeedsDevice}};

inline constexpr Route<StaysQuery, Stays> kStays{
    {"GET", "/api/gpu/processes", "GPU", Scope::read, Gpus::some,
     "Which processes were on which GPUs, the newest first: when each came and went, whose it was, "
     "and the most memory it had. 30 days are kept, 100,000 at most; one that came and went "
     "between two looks, five seconds apart, is not among them.",
     kNeedsDevice}};

inline constexpr Route<BottlenecksQuery, Bottlenecks> kBottlenecks{
    {"GET", "/api/gpu/bottlenecks", "GPU", Scope::read, Gpus::some,
     "Why each GPU was slow: the spells of each cause, the newest first, and the share of each "
     "cause in the time that is known. 30 days are kept, 100,000 spells at most; one is of ten "
     "seconds or more.",
     kNeedsDevice}};

inline constexpr Route<NoParams, DriverInfo> kDriver{
    {.method = "GET",
     .pattern = "/api/gpu/driver",
     .tag = "GPU",
     .gpus = Gpus::none,
     .summary =
         "Versions of the driver, of the CUDA it supports, and of NVML; 503 where NVML is not "
         "initialised.",
     .failures = kNeedsDriver,
     .errors = ErrorShape::detail}};

inline constexpr Route<SnapshotQuery, Snapshot> kSnapshot{
    {"GET", "/api/gpu/snapshot", "GPU", Scope::read, Gpus::some,
     "The full picture of all GPUs: every reading, or why it is missing, from the newest snapshot "
     "or, with `at`, of a past moment as the history keeps it.",
     kNeedsDriver}};

inline constexpr Route<NoParams, Brief> kBrief{
    {"GET", "/api/gpu/brief", "GPU", Scope::read, Gpus::some,
     "The machine in about 150 bytes a GPU, for who looks at many machines: each GPU's use, user, "
     "load and health, and how many claims wait and alerts fire. The answer has an ETag."}};

inline constexpr Route<EventsRequest, Text> kEvents{
    {"GET", "/api/gpu/events", "GPU", Scope::read, Gpus::whole,
     "What happens, as server-sent events: `device`, `operation` and `lease` events have an id and "
     "are never left out, "
     "`snapshot` and, every five seconds, `load` events may be, and `resync` is all there is to "
     "know, for who cannot go on from "
     "the last id.",
     kNeedsGpus, 200, "", "text/event-stream", "Last-Event-ID"}};

inline constexpr Route<PowerStreamRequest, Text> kPowerStream{
    {"GET", "/api/gpu/stream/power", "GPU", Scope::read, Gpus::some,
     "The power of GPUs up to a hundred times a second, as server-sent events `power`. A GPU is "
     "read so often only while somebody listens.",
     kNeedsDevice, 200, "", "text/event-stream"}};

inline constexpr Route<NoParams, EnergyReport> kEnergy{
    {"GET", "/api/gpu/energy", "Energy", Scope::read, Gpus::whole,
     "What each GPU used since it was first seen, by account, as of the last reading."}};

inline constexpr Route<NoParams, EnergyWindow, EnergyWindowWish> kBeginEnergyWindow{
    {"POST", "/api/gpu/energy/windows", "Energy", Scope::lease, Gpus::some,
     "Begins to measure GPUs, with fresh readings. The window survives the daemon, and is over "
     "after "
     "its longest time if nobody ends it.",
     kNeedsGpusAndRoom, 201}};

inline constexpr Route<NoParams, EnergyWindows> kEnergyWindows{
    {"GET", "/api/gpu/energy/windows", "Energy", Scope::read, Gpus::whole,
     "All open windows, as of the last reading."}};

inline constexpr Route<WindowName, EnergyWindow> kEnergyWindow{
    {"GET", "/api/gpu/energy/windows/{window}", "Energy", Scope::read, Gpus::some,
     "What was used in a window until now, with fresh readings.", kNeedsWindow}};

inline constexpr Route<WindowName, EnergyWindow> kEndEnergyWindow{
    {"DELETE", "/api/gpu/energy/windows/{window}", "Energy", Scope::lease, Gpus::some,
     "Ends a window with fresh readings, and says what was used in it. Only for who began it, or "
     "an "
     "administrator.",
     kNeedsWindow}};

inline constexpr Route<NoParams, Management> kManagement{
    {"GET", "/api/gpu/manage", "Control", Scope::read, Gpus::some,
     "What can be set of all GPUs: its value now, what the GPU takes, and who wants what.",
     kNeedsDriver}};

inline constexpr Route<NoParams, Operations> kOperations{
    {"GET", "/api/gpu/manage/operations", "Control", Scope::read, Gpus::whole,
     "Changes that wait or run, and the last that are over."}};

inline constexpr Route<OperationName, Operation> kOperation{
    {"GET", "/api/gpu/manage/operations/{operation}", "Control", Scope::read, Gpus::whole,
     "One change, by the id that its request was answered with.", kNeedsOperation}};

inline constexpr Route<AuditQuery, Audit> kAudit{
    {"GET", "/api/gpu/manage/audit", "Control", Scope::control, Gpus::some,
     "Who changed what, from what to what, and how it ended; also what was refused.",
     kNeedsDevice}};

inline constexpr Route<ManagedGpus, Management> kManagementOf{
    {"GET", "/api/gpu/manage/{id}", "Control", Scope::read, Gpus::some,
     "What can be set of one or several GPUs.", kNeedsDevice}};

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
                  "Gives up what the caller wanted here: what others want comes in force, or what "
                  "it was before.",
                  for_holders);
}

inline constexpr Route<ManagedGpus, Changes, PowerLimitWish> kSetPowerLimit{
    changing("PUT", "/api/gpu/manage/{id}/power-limit",
             "The power limit. Of several owners the lowest one is in force.", kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestorePowerLimit{
    restoring("/api/gpu/manage/{id}/power-limit", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, ClocksWish> kSetGpuClocks{
    changing("PUT", "/api/gpu/manage/{id}/gpu-clocks", "Locks the clocks of the GPU to a range.",
             kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestoreGpuClocks{
    restoring("/api/gpu/manage/{id}/gpu-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, ClocksWish> kSetMemoryClocks{
    changing("PUT", "/api/gpu/manage/{id}/memory-clocks",
             "Locks the clocks of the memory to a range.", kForHolders)};

inline constexpr Route<RestoreQuery, Changes> kRestoreMemoryClocks{
    restoring("/api/gpu/manage/{id}/memory-clocks", kForHolders)};

inline constexpr Route<ManagedGpus, Changes, EnabledWish> kSetPersistence{
    changing("PUT", "/api/gpu/manage/{id}/persistence",
             "Whether the driver keeps the GPU initialised while nobody uses it.")};

inline constexpr Route<RestoreQuery, Changes> kRestorePersistence{
    restoring("/api/gpu/manage/{id}/persistence")};

inline constexpr Route<ManagedGpus, Changes, ComputeModeWish> kSetComputeMode{
    changing("PUT", "/api/gpu/manage/{id}/compute-mode",
             "Who may use the GPU for computing at the same time.")};

inline constexpr Route<RestoreQuery, Changes> kRestoreComputeMode{
    restoring("/api/gpu/manage/{id}/compute-mode")};

inline constexpr Route<ManagedGpus, Changes, EnabledWish> kSetEccMode{changing(
    "PUT", "/api/gpu/manage/{id}/ecc", "Error correction of the memory, from the next reset on.")};

inline constexpr Route<RestoreQuery, Changes> kRestoreEccMode{
    restoring("/api/gpu/manage/{id}/ecc")};

inline constexpr Route<ManagedGpus, Changes, ChangeWish> kRestoreAll{changing(
    "POST", "/api/gpu/manage/{id}/restore",
    "Gives up all that the caller wanted of these GPUs; with `force` what anybody wanted.")};

inline constexpr Route<ManagedGpus, Changes, ClearEccWish> kClearEcc{
    changing("POST", "/api/gpu/manage/{id}/clear-ecc", "Sets the counters of memory errors to 0.")};

inline constexpr Route<ManagedGpus, Changes, ChangeWish> kResetGpu{
    changing("POST", "/api/gpu/manage/{id}/reset",
             "Resets one GPU that no process uses. All GPUs are away for that moment.", false,
             Scope::admin)};

inline constexpr std::array kNeedsLease = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kClaims = {Errc::not_found, Errc::conflict, Errc::busy,
                                       Errc::unavailable};

inline constexpr Route<NoParams, Leases> kLeases{
    {"GET", "/api/gpu/leases", "Leases", Scope::read, Gpus::some,
     "Who has which GPUs since when, and what was used under each lease until now."}};

inline constexpr Route<NoParams, LeaseAnswer, LeaseWish> kClaim{
    {"POST", "/api/gpu/leases", "Leases", Scope::lease, Gpus::some,
     "Claims GPUs: all of them or none, first come, first served. Answers once they are there, or "
     "with `waiting` after `answer_within_s`: ask again with the same id. With `stream` the answer "
     "is server-sent events `lease`, which tell the place in the queue and each change, and the "
     "lease ends soon after the stream.",
     kClaims}};

inline constexpr Route<NoParams, LeaseAnswer, AdoptWish> kAdopt{
    {"POST", "/api/gpu/leases/adopt", "Leases", Scope::lease, Gpus::whole,
     "Makes a lease of the GPUs that a process and its descendants of the same user use already. "
     "Only of one's own process. Descendants of other users are named, and not taken.",
     kClaims}};

inline constexpr Route<LeaseName, LeaseAnswer> kLease{
    {"GET", "/api/gpu/leases/{lease}", "Leases", Scope::read, Gpus::some,
     "One lease, waiting, held, draining or ended within the last day.", kNeedsLease}};

inline constexpr Route<ReleaseQuery, LeaseAnswer> kRelease{
    {"DELETE", "/api/gpu/leases/{lease}", "Leases", Scope::lease, Gpus::some,
     "Gives up a lease or a place in the queue, in whatever state. The GPUs are another's once the "
     "processes are seen gone.",
     kNeedsLease}};

inline constexpr Route<LeaseName, LeaseAnswer, RenewWish> kRenew{
    {"POST", "/api/gpu/leases/{lease}/renew", "Leases", Scope::lease, Gpus::some,
     "Lets a detached lease last longer.", kNeedsLease}};

inline constexpr Route<LeaseName, LeaseAnswer, MemberWish> kAddMember{
    {"POST", "/api/gpu/leases/{lease}/processes", "Leases", Scope::lease, Gpus::whole,
     "Counts a process of the caller's to his lease.", kNeedsLease}};

inline constexpr Route<NoParams, Queue> kQueue{
    {"GET", "/api/gpu/queue", "Leases", Scope::read, Gpus::whole,
     "Who waits in which order and why; who uses GPUs outside any lease; which GPUs are not handed "
     "out."}};

inline constexpr Route<NoParams, Load> kLoad{
    {"GET", "/api/gpu/load", "Leases", Scope::read, Gpus::whole,
     "Which GPUs are leased and how many wait; also the event `load`, every five seconds."}};

inline constexpr std::array kOffers = {Errc::unavailable};

inline constexpr Route<FreeQuery, FreeGpus> kFree{
    {"GET", "/api/gpu/free", "Leases", Scope::read, Gpus::some,
     "Which GPUs the caller would get now from a claim that does not wait. Changes nothing.",
     kOffers}};

inline constexpr Route<UsageQuery, Usage> kUsage{
    {"GET", "/api/gpu/usage", "Leases", Scope::read, Gpus::whole,
     "GPU-hours and energy under leases by user, day, GPU, lease or job; 400 whole days in UTC.",
     kNeedsDriver, 200, "text/csv"}};

inline constexpr Route<ManagedGpus, Cordoned, CordonWish> kCordon{
    {"PUT", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, Gpus::some,
     "Hands these GPUs out to nobody from now on. Leases that are held go on.", kNeedsDevice}};

inline constexpr Route<ManagedGpus, Cordoned> kUncordon{
    {"DELETE", "/api/gpu/manage/{id}/cordon", "Leases", Scope::control, Gpus::some,
     "Hands these GPUs out again.", kNeedsDevice}};

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
                 "The caller's tokens, or everybody's for an administrator; never their secrets.")};

inline constexpr Route<NoParams, NewToken, TokenWish> kMakeToken{[] {
  RouteInfo route = about_tokens(
      "POST", "/api/gpu/tokens",
      "Makes a token, whose text is told once. It may at most what its user may.", kMakesToken);
  route.status = 201;
  return route;
}()};

inline constexpr Route<TokenName, Tokens> kRevokeToken{
    about_tokens("DELETE", "/api/gpu/tokens/{token}",
                 "Refuses a token from now on, and ends its streams.", kNeedsToken)};

inline constexpr Route<TokensOf, Tokens> kRevokeTokensOf{
    about_tokens("DELETE", "/api/gpu/tokens", "Refuses all tokens of one user.", kRevokesTokens)};

inline constexpr Route<NoParams, Text> kMetrics{
    {.method = "GET",
     .pattern = "/metrics",
     .tag = "Observability",
     .scope = Scope::metrics,
     .gpus = Gpus::whole,
     .summary = "All metrics, in Prometheus's text format, or in OpenMetrics for who asks for it "
                "by Accept.",
     .produces = "text/plain",
     .also_produces = "application/openmetrics-text",
     .ignores_query = true}};

inline constexpr Route<NoParams, Health> kHealth{{"GET", "/health", "Observability", Scope::open,
                                                  Gpus::none,
                                                  "Liveness: the daemon's loop turns."}};

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
