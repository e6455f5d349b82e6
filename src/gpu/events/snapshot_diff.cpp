#include "gpu/events/snapshot_diff.h"

#include <bit>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpuyard::events {
namespace {

using Gpu = InventoryState::Gpu;

Event make_event(std::string kind, EventSeverity severity, std::string text) {
  Event event;
  event.kind = std::move(kind);
  event.severity = severity;
  event.text = std::move(text);
  return event;
}

Event gpu_event(const DeviceId& id, const Gpu& gpu, std::string kind, EventSeverity severity,
                std::string_view what) {
  Event one =
      make_event(std::move(kind), severity, fmt::format("GPU {} {}", gpu.spoken_name, what));
  one.device = id;
  one.index = gpu.index;
  return one;
}

std::string append_reason(std::string_view what, std::string_view why) {
  return why.empty() ? std::string(what) : fmt::format("{}: {}", what, why);
}

void put_condition(std::vector<Event>& out, const DeviceId& id, const Gpu& gpu) {
  switch (gpu.condition) {
    case DeviceCondition::responsive:
      return out.push_back(
          gpu_event(id, gpu, "gpu_responsive", EventSeverity::note, "responds again"));
    case DeviceCondition::unresponsive:
      return out.push_back(gpu_event(id, gpu, "gpu_unresponsive", EventSeverity::warn,
                                     append_reason("does not respond", gpu.why)));
    case DeviceCondition::unavailable:
      return out.push_back(gpu_event(id, gpu, "gpu_unavailable", EventSeverity::stop,
                                     append_reason("is not available", gpu.why)));
  }
}

EventSeverity severity_of(Health verdict) {
  if (verdict == Health::healthy) return EventSeverity::note;
  return verdict == Health::degraded ? EventSeverity::warn : EventSeverity::stop;
}

// A first verdict of healthy is expected, so it is no event.
void put_verdict(std::vector<Event>& out, const DeviceId& id, const std::optional<Health>& before,
                 const Gpu& gpu) {
  if (!gpu.verdict || gpu.verdict == before) return;
  if (!before && gpu.verdict == Health::healthy) return;
  const std::string what =
      before ? fmt::format("is {}, was {}", name_of(*gpu.verdict), name_of(*before))
             : fmt::format("is {}", name_of(*gpu.verdict));
  out.push_back(gpu_event(id, gpu, "health_changed", severity_of(*gpu.verdict),
                          append_reason(what, fmt::format("{}", fmt::join(gpu.reasons, "; ")))));
}

// "17 of 18 NVLinks are up"
std::string links_up(const Gpu& gpu) {
  return fmt::format("{} of {} NVLinks are up", std::popcount(gpu.nvlinks.up),
                     std::popcount(gpu.nvlinks.present));
}

// A link that is seen for the first time is no change, whether it is up or not.
void put_nvlinks(std::vector<Event>& out, const DeviceId& id, const Gpu& before, const Gpu& gpu) {
  const std::uint64_t changed =
      (before.nvlinks.up ^ gpu.nvlinks.up) & before.nvlinks.present & gpu.nvlinks.present;
  const auto down = link_numbers(changed & ~gpu.nvlinks.up);
  const auto up = link_numbers(changed & gpu.nvlinks.up);
  if (!down.empty()) {
    out.push_back(
        gpu_event(id, gpu, "nvlink_down", EventSeverity::warn,
                  fmt::format("has lost NVLink {}: {}", format_links(down), links_up(gpu))));
  }
  if (!up.empty()) {
    out.push_back(gpu_event(id, gpu, "nvlink_up", EventSeverity::note,
                            fmt::format("has NVLink {} up: {}", format_links(up), links_up(gpu))));
  }
}

void put_driver(std::vector<Event>& out, const InventoryState& before,
                const InventoryState& after) {
  if (before.driver_up && !after.driver_up) {
    out.push_back(make_event("driver_down", EventSeverity::stop,
                             append_reason("the driver is down", after.driver)));
  } else if (!before.driver_up && after.driver_up) {
    out.push_back(make_event("driver_up", EventSeverity::note,
                             fmt::format("the driver {} is up, with {} GPU{}", after.driver,
                                         after.gpus.size(), after.gpus.size() == 1 ? "" : "s")));
  }
}

void put_gpus(std::vector<Event>& out, const InventoryState& before, const InventoryState& after) {
  for (const auto& [id, gpu] : before.gpus) {
    if (after.gpus.contains(id)) continue;
    out.push_back(gpu_event(id, gpu, "gpu_disappeared", EventSeverity::stop,
                            "is no longer listed by the driver"));
  }
  for (const auto& [id, gpu] : after.gpus) {
    const auto known = before.gpus.find(id);
    const bool is_new = known == before.gpus.end();
    if (is_new) {
      out.push_back(gpu_event(id, gpu, "gpu_appeared", EventSeverity::note,
                              append_reason("was detected", gpu.name)));
    }
    const auto condition = is_new ? DeviceCondition::responsive : known->second.condition;
    if (gpu.condition != condition) put_condition(out, id, gpu);
    put_verdict(out, id, is_new ? std::nullopt : known->second.verdict, gpu);
    if (!is_new) put_nvlinks(out, id, known->second, gpu);
  }
}

}  // namespace

InventoryState state_after(const InventoryState& before, const Snapshot& snapshot) {
  InventoryState after;
  after.known = snapshot.generation > 0;
  after.driver_up = snapshot.driver.initialised;
  after.driver =
      after.driver_up ? snapshot.driver.info.driver_version.value_or("") : snapshot.driver.why;
  after.gpus_known = before.gpus_known || after.driver_up;
  if (!after.driver_up) {
    after.gpus = before.gpus;
    return after;
  }
  for (const DeviceState& device : snapshot.devices) {
    const DeviceInfo& info = device.info;
    const auto index = own_index(info);
    Gpu gpu{index,
            spoken_name(info.id, info.former_index.value_or(info.index), index.has_value()),
            info.name,
            device.condition,
            device.why,
            device.health.verdict,
            device.health.reasons,
            nvlinks_of(device)};
    const auto known = before.gpus.find(device.info.id);
    if (gpu.nvlinks.present == 0 && known != before.gpus.end()) gpu.nvlinks = known->second.nvlinks;
    if (!gpu.verdict && known != before.gpus.end()) gpu.verdict = known->second.verdict;
    after.gpus.emplace(device.info.id, std::move(gpu));
  }
  return after;
}

std::vector<Event> changes_between(const InventoryState& before, const InventoryState& after) {
  std::vector<Event> changes;
  if (!before.known) return changes;
  put_driver(changes, before, after);
  if (before.gpus_known) put_gpus(changes, before, after);
  return changes;
}

std::vector<Event> ChangeDetector::update(const Snapshot& snapshot) {
  InventoryState after = state_after(state_, snapshot);
  std::vector<Event> changes = changes_between(state_, after);
  for (Event& change : changes) {
    change.at = snapshot.taken;
    change.wall = snapshot.wall;
  }
  state_ = std::move(after);
  return changes;
}

}  // namespace gpuyard::events
