// Control as the API's description shows it: the two H100 of examples.cpp, five minutes later. One
// user has limited the power of the busy one for an hour.
#include "api/examples.h"

namespace gpuyard::api {
namespace {

using protocol::Change;
using protocol::ChangeOutcome;
using protocol::ManagedSetting;
using protocol::Standing;
using protocol::view_of;

constexpr const char* kByAlice = "uid 1000";
constexpr const char* kLimitUntil = "2026-01-01T01:05:00.118Z";
constexpr const char* kRequest = "7c1e02b94d5f8a36";
constexpr double kTook = 0.0123;
constexpr double kHour = 3600;

constexpr std::int64_t kCap = 300'000;  // milliwatts
constexpr std::int64_t kLowestPower = 200'000;
constexpr std::int64_t kHighestPower = 700'000;
constexpr std::int64_t kLowestClock = 210;  // MHz
constexpr std::int64_t kHighestClock = 1980;
constexpr std::int64_t kMemoryClock = 2619;

std::string name_of(SettingKind kind) {
  return std::string(enum_name(kind));
}

Change limited() {
  Change change;
  change.operation = kOperationExample;
  change.index = 0;
  change.uuid = kBusyGpu;
  change.setting = name_of(SettingKind::power_limit);
  change.outcome = ChangeOutcome::applied;
  change.before = view_of(power_limit(kHighestPower));
  change.after = view_of(power_limit(kCap));
  change.owner = kByAlice;
  change.until = kLimitUntil;
  return change;
}

// What nobody asked for.
ManagedSetting untouched(const Setting& now, const std::optional<Setting>& by_default) {
  ManagedSetting setting;
  setting.setting = name_of(now.kind);
  setting.now = view_of(now);
  if (by_default) setting.by_default = view_of(*by_default);
  return setting;
}

ManagedSetting clocks(SettingKind kind, std::int64_t lowest, std::int64_t highest) {
  const auto only = [&](std::int64_t mhz) { return view_of({kind, SettingValue{mhz, mhz}}); };
  ManagedSetting setting;
  setting.setting = name_of(kind);
  setting.why = "the driver does not say what clocks are locked to";
  setting.lowest = only(lowest);
  setting.highest = only(highest);
  setting.by_default = view_of(unlocked(kind));
  return setting;
}

ManagedSetting power() {
  auto setting = untouched(power_limit(kHighestPower), power_limit(kHighestPower));
  setting.lowest = view_of(power_limit(kLowestPower));
  setting.highest = view_of(power_limit(kHighestPower));
  return setting;
}

ManagedSetting limited_power() {
  auto setting = power();
  setting.standing = Standing::applied;
  setting.now = view_of(power_limit(kCap));
  setting.baseline = view_of(power_limit(kHighestPower));
  setting.claims.push_back({kByAlice, view_of(power_limit(kCap)), kAskedAt, kLimitUntil});
  return setting;
}

std::vector<ManagedSetting> settings_with(ManagedSetting power) {
  return {std::move(power),
          clocks(SettingKind::gpu_clocks, kLowestClock, kHighestClock),
          clocks(SettingKind::memory_clocks, kMemoryClock, kMemoryClock),
          untouched(persistence(false), {}),
          untouched(compute_mode(0), {}),
          untouched(ecc(true), ecc(true))};
}

}  // namespace

protocol::PowerLimitWish example_of(std::type_identity<protocol::PowerLimitWish>) {
  protocol::PowerLimitWish wish;
  wish.power_limit_mw = kCap;
  wish.for_s = kHour;
  return wish;
}

protocol::ClocksWish example_of(std::type_identity<protocol::ClocksWish>) {
  protocol::ClocksWish wish;
  wish.min_clock_mhz = 1200;
  wish.max_clock_mhz = 1500;
  return wish;
}

protocol::EnabledWish example_of(std::type_identity<protocol::EnabledWish>) {
  protocol::EnabledWish wish;
  wish.enabled = true;
  return wish;
}

protocol::ComputeModeWish example_of(std::type_identity<protocol::ComputeModeWish>) {
  protocol::ComputeModeWish wish;
  wish.compute_mode = "exclusive_process";
  return wish;
}

protocol::ClearEccWish example_of(std::type_identity<protocol::ClearEccWish>) {
  protocol::ClearEccWish wish;
  wish.counter = "volatile";
  return wish;
}

protocol::ChangeWish example_of(std::type_identity<protocol::ChangeWish>) {
  protocol::ChangeWish wish;
  wish.dry_run = true;
  return wish;
}

protocol::Changes example_of(std::type_identity<protocol::Changes>) {
  Change lost;
  lost.operation = "12";
  lost.index = 1;
  lost.uuid = kIdleGpu;
  lost.setting = name_of(SettingKind::power_limit);
  lost.outcome = ChangeOutcome::failed;
  lost.error = {"device_lost", "GPU is lost"};
  return {1, true, {limited(), lost}};
}

protocol::Management example_of(std::type_identity<protocol::Management>) {
  protocol::Management management;
  management.simulated = true;
  management.enabled = true;
  management.gpus = {{0, kBusyGpu, kGpuName, settings_with(limited_power())},
                     {1, kIdleGpu, kGpuName, settings_with(power())}};
  return management;
}

protocol::Operation example_of(std::type_identity<protocol::Operation>) {
  return {protocol::OperationState::done,
          "set power_limit to 300 W",
          kByAlice,
          kRequest,
          kAskedAt,
          kTook,
          limited()};
}

protocol::Operations example_of(std::type_identity<protocol::Operations>) {
  return {1, {example_of(std::type_identity<protocol::Operation>{})}};
}

protocol::Audit example_of(std::type_identity<protocol::Audit>) {
  protocol::AuditLine line;
  line.number = 17;
  line.at = kAskedAt;
  line.by = kByAlice;
  line.request_id = kRequest;
  line.action = "set power_limit to 300 W";
  line.index = 0;
  line.uuid = kBusyGpu;
  line.before = "700 W";
  line.after = "300 W";
  line.outcome = "applied";
  line.seconds = kTook;
  return {1, {line}};
}

}  // namespace gpuyard::api
