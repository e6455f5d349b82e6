#include "faces/api/lease_cache.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faces/api/context.h"

namespace gpuyard::api {

std::optional<lease::QueuePosition> LeaseCache::position(const std::string& id) {
  refresh(kRefreshInterval);
  auto found = positions_.find(id);
  if (found == positions_.end()) {
    refresh(kMinRefreshInterval);
    found = positions_.find(id);
  }
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> LeaseCache::holder(const DeviceId& gpu) {
  refresh(kRefreshInterval);
  const auto found = holders_.find(gpu);
  return found == holders_.end() ? std::nullopt : std::optional(found->second);
}

void LeaseCache::refresh(Duration oldest) {
  if (refreshed_at_ && loop_.now() - *refreshed_at_ < oldest) return;
  refreshed_at_ = loop_.now();
  positions_.clear();
  for (lease::QueueEntry& one : leases_.queue_entries(SIZE_MAX)) {
    positions_.emplace(std::move(one.lease), one.queue_position);
  }
  holders_.clear();
  for (const lease::Lease* lease : leases_.leases_with_gpus()) {
    for (const DeviceId& gpu : lease->gpus) holders_.insert_or_assign(gpu, lease->id);
  }
}

Subscription LeaseCache::subscribe(std::function<void()> on_refresh) {
  const std::uint64_t number = ++last_subscriber_;
  subscribers_.emplace(number, std::move(on_refresh));
  if (!timer_) timer_ = loop_.call_after(kRefreshInterval, [this] { tick(); });
  return Subscription([self = shared_from_this(), number] { self->subscribers_.erase(number); });
}

// Without subscribers no timer runs.
void LeaseCache::tick() {
  timer_.reset();
  if (subscribers_.empty()) return;
  timer_ = loop_.call_after(kRefreshInterval, [this] { tick(); });
  for (const auto& [number, on_refresh] : subscribers_) on_refresh();
}

namespace {

// The number of GPUs, or users, that a sentence names; the rest are counted.
constexpr std::size_t kMaxNamed = 4;

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  const std::size_t named = std::min(parts.size(), kMaxNamed);
  std::string text = fmt::format("{}", fmt::join(std::span(parts).first(named), between));
  if (parts.size() > named) text += fmt::format("{}{} more", between, parts.size() - named);
  return text;
}

std::string gpu_label(const LeaseFacts& facts, const DeviceId& id) {
  const DeviceInfo* info = info_of(facts, id);
  return info == nullptr ? id : fmt::format("GPU {}", info->index);
}

// Returns the GPUs that the claim could use if nothing stood against it, by index.
std::vector<DeviceId> eligible_gpus(const LeaseFacts& facts, const lease::LeaseSpec& spec) {
  const lease::GpuPool& gpus = facts.leases.gpus();
  return gpus.ids_of(gpus.eligible_gpus(spec));
}

// Returns "GPU 0, GPU 1 (alice); GPU 2 (UID 1001, processes still running)".
std::string holders_text(const LeaseFacts& facts, const std::vector<DeviceId>& gpus) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_holder;
  for (const DeviceId& gpu : gpus) {
    const auto id = facts.cache->holder(gpu);
    const lease::Lease* lease = id ? facts.leases.find(*id) : nullptr;
    if (lease == nullptr) continue;
    const bool drains = lease->state == lease::LeaseState::draining;
    const std::string holder =
        display_name(facts.users, lease->uid) + (drains ? ", processes still running" : "");
    auto known = std::ranges::find(by_holder, holder, [](const auto& one) { return one.first; });
    if (known == by_holder.end()) known = by_holder.insert(by_holder.end(), {holder, {}});
    known->second.push_back(gpu_label(facts, gpu));
  }
  std::vector<std::string> parts;
  for (const auto& [holder, names] : by_holder) {
    parts.push_back(fmt::format("{} ({})", join(names, ", "), holder));
  }
  return join(parts, "; ");
}

std::string busy_reason(const LeaseFacts& facts, const lease::LeaseSpec& spec) {
  const std::vector<DeviceId> gpus = eligible_gpus(facts, spec);
  const std::string holders = holders_text(facts, gpus);
  if (holders.empty()) return "the matching GPUs are being leased right now";
  return fmt::format("{} of {} matching GPUs {} needed; leased: {}", spec.gpus, gpus.size(),
                     spec.gpus == 1 ? "is" : "are", holders);
}

// Returns "GPU 3: cordoned by root: fan (`gpuyard uncordon 3`)".
std::string out_of_service_reason(const LeaseFacts& facts, const lease::LeaseSpec& spec) {
  std::vector<std::string> parts;
  for (const DeviceId& gpu : eligible_gpus(facts, spec)) {
    const auto why = withheld_gpu_of(facts, gpu);
    if (!why || why->why == "squatted" || why->why == "unknown_process" || why->why == "in_use") {
      continue;
    }
    std::string part = fmt::format("{}: {}", gpu_label(facts, gpu), why->text);
    if (why->why == "cordoned") part += fmt::format(" (`gpuyard uncordon {}`)", why->index);
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    return "the matching GPUs are not present now; list all GPUs with `gpuyard devices`";
  return fmt::format(
      "matching GPUs are withheld from leasing. {}. Users who may control GPUs can change that",
      join(parts, "; "));
}

std::string unleased_process_text(const LeaseFacts& facts, const DeviceId& gpu,
                                  const lease::ObservedProcess& process, const Viewer& viewer) {
  if (process.attribution == lease::ObservedProcess::Attribution::unknown) {
    return fmt::format("{} by PID {}, which is not visible from here: end it where it runs",
                       gpu_label(facts, gpu), process.pid);
  }
  return fmt::format("{} by PID {} ({}, {}): to lease its GPU, run `{}`", gpu_label(facts, gpu),
                     process.pid, process.command, display_name(facts.users, process.uid),
                     adopt_command(facts.users, process, viewer));
}

std::string unleased_use_reason(const LeaseFacts& facts, const lease::LeaseSpec& spec,
                                const Viewer& viewer) {
  const auto& unleased = facts.leases.gpus().unleased().all();
  std::vector<std::string> parts;
  for (const DeviceId& gpu : eligible_gpus(facts, spec)) {
    const auto found = unleased.find(gpu);
    if (found == unleased.end()) {
      const auto why = facts.leases.gpus().withheld_reason(gpu);
      if (why && why->first == "in_use") {
        parts.push_back(fmt::format("{}: {}", gpu_label(facts, gpu), why->second));
      }
      continue;
    }
    for (const lease::ObservedProcess& process : found->second) {
      parts.push_back(unleased_process_text(facts, gpu, process, viewer));
    }
  }
  if (parts.empty()) return "matching GPUs were used without a lease until just now";
  return fmt::format("matching GPUs are used without a lease: {}", join(parts, "; "));
}

std::string memory_reason(const LeaseFacts& facts, const lease::LeaseSpec& spec) {
  std::vector<std::string> unknown;
  for (const auto& [id, gpu] : facts.leases.gpus().gpus()) {
    if (!gpu.free_bytes && !is_missing(gpu.info)) unknown.push_back(label_of(gpu.info));
  }
  return fmt::format(
      "too few of the matching GPUs have {:.1f} GiB of free memory{}; wait, or lower --min-free",
      lease::to_gib(spec.min_free_bytes),
      unknown.empty() ? "" : fmt::format(" (GPU {}: unknown)", fmt::join(unknown, ", ")));
}

std::string text_of(const LeaseFacts& facts, const lease::Lease& lease, lease::WaitReason why,
                    const Viewer& viewer) {
  using enum lease::WaitReason;
  switch (why) {
    case busy:
      return busy_reason(facts, lease.spec);
    case behind_earlier:
      return "free GPUs are reserved for an earlier claim. See the order with `gpuyard queue`; "
             "claims with a short --max-time may go first";
    case quota:
      return facts.leases.limit_text();
    case out_of_service:
      return out_of_service_reason(facts, lease.spec);
    case squatted:
      return unleased_use_reason(facts, lease.spec, viewer);
    case memory:
      return memory_reason(facts, lease.spec);
    case not_open:
      break;
  }
  const auto closed = facts.leases.grant_error();
  return closed ? closed->text() : "no leases are granted at the moment";
}

std::optional<std::string> withheld_text(const LeaseFacts& facts,
                                         const std::vector<DeviceId>& gpus) {
  std::vector<std::string> parts;
  for (const DeviceId& gpu : gpus) {
    if (const auto why = withheld_gpu_of(facts, gpu)) {
      parts.push_back(
          fmt::format("{} is withheld from leasing: {}", gpu_label(facts, gpu), why->text));
    }
  }
  return parts.empty() ? std::nullopt : std::optional(join(parts, "; "));
}

// Says why a claim that does not wait got no GPUs.
std::string none_free_reason(const LeaseFacts& facts, const lease::Lease& lease) {
  const auto offer = facts.leases.offer(lease.uid, lease.spec);
  if (!offer) return offer.error().text();
  const std::vector<DeviceId> gpus = eligible_gpus(facts, lease.spec);
  const std::string holders = holders_text(facts, gpus);
  if (offer->over_limit) return offer->reason;
  if (holders.empty()) return withheld_text(facts, gpus).value_or(offer->reason);
  return fmt::format("{} of {} matching GPUs {} free; leased: {}", offer->free.size(), gpus.size(),
                     offer->free.size() == 1 ? "is" : "are", holders);
}

}  // namespace

protocol::QueuePosition position_view_of(const LeaseFacts& facts, const lease::Lease& lease,
                                         const lease::QueuePosition& position,
                                         const Viewer& viewer) {
  protocol::QueuePosition view;
  view.position = static_cast<std::int64_t>(position.position);
  view.why = enum_name(position.reason);
  view.text = text_of(facts, lease, position.reason, viewer);
  if (position.expected_start) {
    const Duration left = std::max(*position.expected_start - facts.loop.now(), Duration::zero());
    view.expected_s = std::chrono::duration<double>(left).count();
  }
  return view;
}

protocol::Lease view_with_position(const LeaseFacts& facts, const lease::Lease& lease,
                                   const Viewer& viewer) {
  protocol::Lease view = view_of(facts, lease, viewer);
  if (lease.end_reason == lease::EndReason::none_free) view.detail = none_free_reason(facts, lease);
  if (lease.state != lease::LeaseState::waiting) return view;
  const auto position = facts.cache->position(lease.id);
  if (position) view.place = position_view_of(facts, lease, *position, viewer);
  return view;
}

}  // namespace gpuyard::api
