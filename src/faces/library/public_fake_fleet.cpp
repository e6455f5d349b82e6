#include "faces/library/public_device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "gpu/device/error.h"

namespace gpuyard {
namespace {

std::int64_t bytes_of(std::uint64_t bytes) {
  constexpr auto kMaxBytes = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(bytes, static_cast<std::uint64_t>(kMaxBytes)));
}

Error unknown_reading_error(std::string_view key) {
  return {Errc::not_found,
          fmt::format("unknown reading \"{}\"; see docs/metrics.md for all keys", key)};
}

}  // namespace

v0::FakeFleet::FakeFleet(std::shared_ptr<State> state) : state_(std::move(state)) {}

v0::FakeFleet v0::FakeFleet::with_healthy_gpus(std::uint32_t count, std::uint64_t memory) {
  return FakeFleet(
      std::make_shared<State>(State{fakes::FakeFleet::with_healthy_gpus(count, bytes_of(memory))}));
}

v0::FakeFleet v0::FakeFleet::without_driver(std::string_view why) {
  return FakeFleet(
      std::make_shared<State>(State{fakes::FakeFleet::without_driver(init_error(why))}));
}

void v0::FakeFleet::set_memory_used(std::uint32_t index, std::uint64_t bytes) {
  state_->fleet.set_memory_used(index, bytes_of(bytes));
}

void v0::FakeFleet::set_temperature(std::uint32_t index, std::int64_t celsius) {
  state_->fleet.set_temperature(index, celsius);
}

void v0::FakeFleet::inject_ecc_error(std::uint32_t index) {
  state_->fleet.inject_ecc_error(index);
}

Result<void> v0::FakeFleet::set_number(std::uint32_t index, std::string_view key, double value) {
  const MetricRow* row = library::find_row(key);
  if (row == nullptr) return unknown_reading_error(key);
  if (row->kind == MetricKind::text || !std::isfinite(value)) {
    return Error{Errc::invalid,
                 fmt::format("{} is not a numeric reading, or the value is not finite", key)};
  }
  state_->fleet.set_number(index, row->metric, library::to_native_unit(*row, value));
  return {};
}

Result<void> v0::FakeFleet::set_missing(std::uint32_t index, std::string_view key, Missing why) {
  const MetricRow* row = library::find_row(key);
  if (row == nullptr) return unknown_reading_error(key);
  state_->fleet.set_missing(index, row->metric, std::move(why));
  return {};
}

void v0::FakeFleet::remove_gpu(std::uint32_t index) {
  state_->fleet.remove_gpu(index);
}

void v0::FakeFleet::replug_gpu(std::uint32_t index) {
  state_->fleet.replug_gpu(index);
}

void v0::FakeFleet::replug_gpu(std::uint32_t index, std::uint32_t new_index) {
  state_->fleet.replug_gpu(index, new_index);
}

std::vector<v0::FakeFleet::Write> v0::FakeFleet::writes() const {
  std::vector<Write> writes;
  for (const fakes::FakeWrite& write : state_->fleet.writes()) {
    Write out{write.index, {}, {}, write.failed};
    if (const auto* setting = std::get_if<Setting>(&write.what)) {
      out.setting = setting->kind;
      out.value = setting->value;
    }
    writes.push_back(out);
  }
  return writes;
}

void v0::FakeFleet::set_setting(std::uint32_t index, SettingKind setting,
                                const SettingState& state) {
  state_->fleet.set_setting(index, setting, state);
}

void v0::FakeFleet::set_setting_unsupported(std::uint32_t index, SettingKind setting) {
  state_->fleet.set_unsupported(index, setting);
}

void v0::FakeFleet::set_setting_fails(std::uint32_t index, SettingKind setting,
                                      std::optional<Error> why) {
  state_->fleet.fail_setting_writes(index, setting, std::move(why));
}

void v0::FakeFleet::deny_control(std::optional<std::string> why) {
  if (!why) return state_->fleet.deny_control(std::nullopt);
  state_->fleet.deny_control(Error{Errc::denied, *std::move(why)});
}

void v0::FakeFleet::block(std::uint32_t index) {
  state_->fleet.block(index);
}

void v0::FakeFleet::unblock(std::uint32_t index) {
  state_->fleet.unblock(index);
}

std::vector<GpuMetrics> v0::FakeFleet::collect_metrics() const {
  return state_->fleet.collect_metrics();
}

MockBuilder::MockBuilder() : fleet_(v0::FakeFleet::with_healthy_gpus(0, 0)) {}

MockBuilder& MockBuilder::with_device(std::uint32_t id, std::string_view name) {
  constexpr std::int64_t kMemory = 80'000'000'000;
  fakes::FakeFleet& fleet = fleet_.state_->fleet;
  if (fleet.add_gpu(id, std::string(name), kMemory)) {
    fleet.set_number(id, Metric::power_draw, 60'000);
    fleet.set_number(id, Metric::power_limit, 300'000);
  }
  last_ = id;
  return *this;
}

MockBuilder& MockBuilder::with_temperature(std::int64_t celsius) {
  if (last_) fleet_.set_temperature(*last_, celsius);
  return *this;
}

MockBuilder& MockBuilder::with_utilization(std::int64_t percent) {
  if (last_) fleet_.state_->fleet.set_number(*last_, Metric::utilization_gpu, percent);
  return *this;
}

MockBuilder& MockBuilder::with_memory(std::uint64_t used, std::uint64_t total) {
  if (!last_) return *this;
  fleet_.state_->fleet.set_number(*last_, Metric::memory_total, bytes_of(total));
  fleet_.set_memory_used(*last_, used);
  return *this;
}

v0::FakeFleet MockBuilder::build() const {
  return fleet_;
}

std::vector<GpuMetrics> MockBuilder::collect_metrics() const {
  return fleet_.collect_metrics();
}

}  // namespace gpuyard
