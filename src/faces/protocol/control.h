// Control over REST: the settings of GPUs, the claims on them, and the results of changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "base/result.h"
#include "core/control/audit.h"
#include "core/control/operations.h"
#include "faces/protocol/answer.h"
#include "faces/protocol/bounds.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::control {

// The source and the quota group are for the storage alone.
BOOST_DESCRIBE_STRUCT(AuditEntry, (),
                      (number, at, by, request_id, action, index, gpu, before, after, outcome,
                       error, forced, took))
GPUYARD_ABOUT(AuditEntry, json::keyed("gpu", "uuid", json::Unit::null_if_empty),
              json::keyed("took", "seconds", json::Unit::seconds))

}  // namespace gpuyard::control

namespace gpuyard::protocol {

// One GPU or several: indexes, UUIDs or PCI addresses, separated by commas; or "all".
struct ManagedGpus {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(ManagedGpus, (), (id))

// The options of a change. Every body has these fields.
struct ChangeOptions {
  std::optional<bool> atomic;   // change all of the GPUs, or none
  std::optional<bool> force;    // also against other owners; for administrators
  std::optional<bool> dry_run;  // only say what would happen
  std::optional<bool> wait;     // false: answer as soon as it is queued
};
BOOST_DESCRIBE_STRUCT(ChangeOptions, (), (atomic, force, dry_run, wait))

struct TimedChangeOptions : ChangeOptions {
  std::optional<double> for_s;  // put back after this time; null: when its owner says so
  // A lease of the caller's that has these GPUs: the setting is put back when the lease ends, too.
  // `fence` is that lease's.
  std::optional<std::string> lease;
  std::optional<std::uint64_t> fence;
};
BOOST_DESCRIBE_STRUCT(TimedChangeOptions, (ChangeOptions), (for_s, lease, fence))
GPUYARD_ABOUT(
    TimedChangeOptions,
    {"for_s", "Seconds after which the earlier value is restored. Omitted: until you restore it.",
     kMinSeconds, kMaxSeconds},
    {"lease", "Lease of the caller that holds these GPUs. Its end also restores the earlier value.",
     0, lease::kMaxIdLength},
    {"fence", "Fence of the lease; refused if it is from another grant.", 0, kMaxExactInteger})

// Beyond the range of any board; each GPU's own range is narrower.
inline constexpr double kMaxMilliwatts = 1e9;
inline constexpr double kMaxMegahertz = 1e6;

struct PowerLimitRequest : TimedChangeOptions {
  std::int64_t power_limit_mw = 0;
};
BOOST_DESCRIBE_STRUCT(PowerLimitRequest, (TimedChangeOptions), (power_limit_mw))
GPUYARD_ABOUT(PowerLimitRequest,
              {"power_limit_mw", "Power limit in milliwatts.", 1, kMaxMilliwatts})

struct LockedClocksRequest : TimedChangeOptions {
  std::int64_t min_clock_mhz = 0;
  std::int64_t max_clock_mhz = 0;
};
BOOST_DESCRIBE_STRUCT(LockedClocksRequest, (TimedChangeOptions), (min_clock_mhz, max_clock_mhz))
GPUYARD_ABOUT(LockedClocksRequest, {"min_clock_mhz", "Lowest clock in MHz.", 0, kMaxMegahertz},
              {"max_clock_mhz", "Highest clock in MHz.", 0, kMaxMegahertz})

struct EnableRequest : TimedChangeOptions {
  bool enabled = false;
};
BOOST_DESCRIBE_STRUCT(EnableRequest, (TimedChangeOptions), (enabled))

// EXCLUSIVE_THREAD is left out: drivers no longer support it.
struct ComputeModeRequest : TimedChangeOptions {
  std::string compute_mode;  // "default", "prohibited" or "exclusive_process"
};
BOOST_DESCRIBE_STRUCT(ComputeModeRequest, (TimedChangeOptions), (compute_mode))
GPUYARD_ABOUT(ComputeModeRequest,
              {"compute_mode",
               "Compute mode: \"default\", \"prohibited\" or \"exclusive_process\".", 0,
               kMaxWordBytes})

struct ClearEccRequest : ChangeOptions {
  std::string counter;  // "volatile" (since the driver was loaded) or "aggregate" (ever)
};
BOOST_DESCRIBE_STRUCT(ClearEccRequest, (ChangeOptions), (counter))
GPUYARD_ABOUT(
    ClearEccRequest,
    {"counter",
     "Counter to clear: \"volatile\" (since the driver was loaded) or \"aggregate\" (lifetime).", 0,
     kMaxWordBytes})

// The parameters of a DELETE.
struct RestoreQuery : ManagedGpus, ChangeOptions {
  std::optional<std::string> lease;  // restores what was set with this lease
  std::optional<std::uint64_t> fence;
};
BOOST_DESCRIBE_STRUCT(RestoreQuery, (ManagedGpus, ChangeOptions), (lease, fence))
GPUYARD_ABOUT(RestoreQuery,
              {"lease", "Restores the settings made with this lease.", 0, lease::kMaxIdLength},
              {"fence", "Fence of the lease; refused if it is from another grant.", 0,
               kMaxExactInteger})

// A setting in words, and the numbers of its kind; the other numbers are null.
struct SettingView {
  std::string text;
  std::optional<std::int64_t> power_limit_mw;
  std::optional<std::int64_t> min_clock_mhz;
  std::optional<std::int64_t> max_clock_mhz;
  std::optional<bool> enabled;
  std::optional<std::string> compute_mode;
};
BOOST_DESCRIBE_STRUCT(SettingView, (),
                      (text, power_limit_mw, min_clock_mhz, max_clock_mhz, enabled, compute_mode))

using ChangeOutcome = control::ChangeOutcome;

struct ErrorView {
  std::string code;
  std::string message;
};
BOOST_DESCRIBE_STRUCT(ErrorView, (), (code, message))

// The result of one change of one GPU.
struct ChangeResult {
  std::string operation;  // its id
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::optional<std::string> setting;  // "power_limit", ...; null for clearing and resetting
  ChangeOutcome outcome{};
  std::optional<SettingView> before;
  std::optional<SettingView> after;  // in force now, or after a real run
  std::optional<std::string> owner;  // the owner now
  std::optional<WallTime> until;     // when it is put back by itself
  std::optional<ErrorView> error;
};
BOOST_DESCRIBE_STRUCT(ChangeResult, (),
                      (operation, index, uuid, setting, outcome, before, after, owner, until,
                       error))

struct ChangeResults : AnswerHead {
  std::vector<ChangeResult> changes;  // by GPU, in the order requested
};
BOOST_DESCRIBE_STRUCT(ChangeResults, (AnswerHead), (changes))

struct SettingClaimView {
  std::string owner;
  SettingView wanted;
  WallTime since{};
  std::optional<WallTime> until;
};
BOOST_DESCRIBE_STRUCT(SettingClaimView, (), (owner, wanted, since, until))

// free: the driver's own value; nobody claims another.
enum class SettingStatus : std::uint8_t {
  free,
  applied,
  assumed,
  pending_reboot,
  drifted,  // changed by another program
  owed,     // still to be written: the GPU or its driver is away
};
BOOST_DESCRIBE_ENUM(SettingStatus, free, applied, assumed, pending_reboot, drifted, owed)

struct ManagedSetting {
  std::string setting;
  SettingStatus standing{};
  std::optional<SettingView> now;     // null: unreadable; `why` has the reason
  std::optional<std::string> why;     // why `now` is null
  std::optional<SettingView> lowest;  // that the GPU takes
  std::optional<SettingView> highest;
  std::optional<SettingView> by_default;  // the driver's own choice
  std::optional<SettingView> baseline;    // the value it is put back to
  std::vector<SettingClaimView> claims;
};
BOOST_DESCRIBE_STRUCT(ManagedSetting, (),
                      (setting, standing, now, why, lowest, highest, by_default, baseline, claims))

struct ManagedGpu {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::string name;
  std::vector<ManagedSetting> settings;
};
BOOST_DESCRIBE_STRUCT(ManagedGpu, (), (index, uuid, name, settings))

struct Management : AnswerHead {
  bool enabled = false;            // [control] enabled
  std::vector<std::string> notes;  // reasons why control does not work
  std::vector<ManagedGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(Management, (AnswerHead), (enabled, notes, gpus))

using OperationState = control::OperationState;

struct Operation {
  OperationState state{};
  std::string action;  // "set power_limit to 300 W"
  std::string asked_by;
  std::string request_id;
  WallTime asked_at{};
  std::optional<double> seconds;  // from the request until it was over
  ChangeResult change;
};
BOOST_DESCRIBE_STRUCT(Operation, (),
                      (state, action, asked_by, request_id, asked_at, seconds, change))

struct OperationName {
  std::string operation;
};
BOOST_DESCRIBE_STRUCT(OperationName, (), (operation))

struct Operations {
  int schema = 1;
  std::vector<Operation> operations;  // oldest first; the finished ones are kept for a while
};
BOOST_DESCRIBE_STRUCT(Operations, (), (schema, operations))

struct AuditQuery {
  std::optional<std::string> gpu;      // indexes, UUIDs or PCI addresses with commas
  std::optional<std::int64_t> limit;   // how many of the newest; 100 by default
  std::optional<std::int64_t> before;  // entries older than this number
};
BOOST_DESCRIBE_STRUCT(AuditQuery, (), (gpu, limit, before))
GPUYARD_ABOUT(AuditQuery, {"limit", "Number of newest entries, 1 to 1000; default 100.", 1, 1000},
              {"before", "Only entries with a lower number.", 0, kMaxExactInteger})

using AuditLine = control::AuditEntry;

struct Audit {
  int schema = 1;
  std::vector<AuditLine> entries;  // oldest first
};
BOOST_DESCRIBE_STRUCT(Audit, (), (schema, entries))

// Return what a body requests. Errors: invalid.
Result<Setting> setting_of(const ComputeModeRequest&);
Result<EccCounter> counter_of(const ClearEccRequest&);
std::optional<Duration> duration_of(const TimedChangeOptions&);

SettingView view_of(const Setting&);
ChangeResult change_result_of(const control::ChangeResult&);
// `held`: the claims on the setting; null: none.
ManagedSetting managed_setting_of(SettingKind, const Result<SettingState>& seen,
                                  const control::ManagedSetting* held);
Operation operation_of(const control::Operation&);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <>
inline constexpr std::string_view schema_name<protocol::SettingView> = "Setting";
template <>
inline constexpr std::string_view schema_name<protocol::SettingClaimView> = "Claim";
template <>
inline constexpr std::string_view schema_name<protocol::AuditLine> = "AuditLine";
GPUYARD_SCHEMA(protocol::ChangeOptions);
GPUYARD_SCHEMA(protocol::PowerLimitRequest);
GPUYARD_SCHEMA(protocol::LockedClocksRequest);
GPUYARD_SCHEMA(protocol::EnableRequest);
GPUYARD_SCHEMA(protocol::ComputeModeRequest);
GPUYARD_SCHEMA(protocol::ClearEccRequest);
GPUYARD_SCHEMA(protocol::ChangeResult);
GPUYARD_SCHEMA(protocol::ChangeResults);
GPUYARD_SCHEMA(protocol::ManagedSetting);
GPUYARD_SCHEMA(protocol::ManagedGpu);
GPUYARD_SCHEMA(protocol::Management);
GPUYARD_SCHEMA(protocol::Operation);
GPUYARD_SCHEMA(protocol::Operations);
GPUYARD_SCHEMA(protocol::AuditLine);
GPUYARD_SCHEMA(protocol::Audit);

}  // namespace gpuyard::json
