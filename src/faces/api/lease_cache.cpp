#include "faces/api/lease_cache.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faces/api/context.h"

namespace gpuyard::api {

std::optional<lease::Outlook> LeaseCache::place(const std::string& id) {
  refresh(kPeriod);
  auto found = places_.find(id);
  if (found == places_.end()) {
    refresh(kLeast);
    found = places_.find(id);
  }
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> LeaseCache::holder(const DeviceId& gpu) {
  refresh(kPeriod);
  const auto found = holders_.find(gpu);
  return found == holders_.end() ? std::nullopt : std::optional(found->second);
}

void LeaseCache::refresh(Duration oldest) {
  if (looked_ && loop_.now() - *looked_ < oldest) return;
  looked_ = loop_.now();
  places_.clear();
  for (lease::QueueEntry& one : leases_.outlooks(SIZE_MAX)) {
    places_.emplace(std::move(one.lease), one.outlook);
  }
  holders_.clear();
  for (const lease::Lease* lease : leases_.with_gpus()) {
    for (const DeviceId& gpu : lease->gpus) holders_.insert_or_assign(gpu, lease->id);
  }
}

Subscription LeaseCache::follow(std::function<void()> told) {
  const std::uint64_t number = ++next_;
  followers_.emplace(number, std::move(told));
  if (!timer_) timer_ = loop_.call_after(kPeriod, [this] { tick(); });
  return Subscription([self = shared_from_this(), number] { self->followers_.erase(number); });
}

// Without followers no timer runs.
void LeaseCache::tick() {
  timer_.reset();
  if (followers_.empty()) return;
  timer_ = loop_.call_after(kPeriod, [this] { tick(); });
  for (const auto& [number, told] : followers_) told();
}

namespace {

// How many GPUs, or users, a sentence names; the rest are counted.
constexpr std::size_t kMostNamed = 4;

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  const std::size_t named = std::min(parts.size(), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(std::span(parts).first(named), between));
  if (parts.size() > named) text += fmt::format("{}{} more", between, parts.size() - named);
  return text;
}

std::string number_of(const Context& context, const DeviceId& id) {
  const DeviceInfo* info = info_of(context, id);
  return info == nullptr ? id : fmt::format("GPU {}", info->index);
}

// Returns the GPUs that the claim could use if nothing stood against it, by index.
std::vector<DeviceId> fitting(const Context& context, const lease::Wish& wish) {
  const lease::GpuPool& gpus = context.leases.gpus();
  return gpus.names(gpus.eligible(wish));
}

// Returns "GPU 0, GPU 1 (alice); GPU 2 (UID 1001, processes still running)".
std::string holders_of(Context& context, const std::vector<DeviceId>& gpus) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_holder;
  for (const DeviceId& gpu : gpus) {
    const auto id = board_of(context).holder(gpu);
    const lease::Lease* lease = id ? context.leases.find(*id) : nullptr;
    if (lease == nullptr) continue;
    const bool drains = lease->state == lease::State::draining;
    const std::string who =
        person(context, lease->uid) + (drains ? ", processes still running" : "");
    auto known = std::ranges::find(by_holder, who, [](const auto& one) { return one.first; });
    if (known == by_holder.end()) known = by_holder.insert(by_holder.end(), {who, {}});
    known->second.push_back(number_of(context, gpu));
  }
  std::vector<std::string> parts;
  for (const auto& [who, names] : by_holder) {
    parts.push_back(fmt::format("{} ({})", join(names, ", "), who));
  }
  return join(parts, "; ");
}

std::string why_busy(Context& context, const lease::Wish& wish) {
  const std::vector<DeviceId> gpus = fitting(context, wish);
  const std::string holders = holders_of(context, gpus);
  if (holders.empty()) return "the matching GPUs are being leased right now";
  return fmt::format("{} of {} matching GPUs {} needed; leased: {}", wish.gpus, gpus.size(),
                     wish.gpus == 1 ? "is" : "are", holders);
}

// Returns "GPU 3: cordoned by root: fan (`gpuyard uncordon 3`)".
std::string why_out_of_service(const Context& context, const lease::Wish& wish) {
  std::vector<std::string> parts;
  for (const DeviceId& gpu : fitting(context, wish)) {
    const auto why = withheld_of(context, gpu);
    if (!why || why->why == "squatted" || why->why == "unknown_process" || why->why == "in_use") {
      continue;
    }
    std::string part = fmt::format("{}: {}", number_of(context, gpu), why->text);
    if (why->why == "cordoned") part += fmt::format(" (`gpuyard uncordon {}`)", why->index);
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    return "the matching GPUs are not present now; list all GPUs with `gpuyard devices`";
  return fmt::format(
      "matching GPUs are withheld from leasing. {}. Users who may control GPUs can change that",
      join(parts, "; "));
}

std::string squatter_text(const Context& context, const DeviceId& gpu, const lease::Seen& process,
                          const Viewer& viewer) {
  if (process.verdict == lease::Seen::Verdict::unknown) {
    return fmt::format("{} by PID {}, which is not visible from here: end it where it runs",
                       number_of(context, gpu), process.pid);
  }
  return fmt::format("{} by PID {} ({}, {}): to lease its GPU, run `{}`", number_of(context, gpu),
                     process.pid, process.command, person(context, process.uid),
                     resolving(context, process, viewer));
}

std::string why_squatted(const Context& context, const lease::Wish& wish, const Viewer& viewer) {
  const auto& outside = context.leases.gpus().outside();
  std::vector<std::string> parts;
  for (const DeviceId& gpu : fitting(context, wish)) {
    const auto found = outside.find(gpu);
    if (found == outside.end()) {
      const auto why = context.leases.gpus().withheld(gpu);
      if (why && why->first == "in_use") {
        parts.push_back(fmt::format("{}: {}", number_of(context, gpu), why->second));
      }
      continue;
    }
    for (const lease::Seen& process : found->second) {
      parts.push_back(squatter_text(context, gpu, process, viewer));
    }
  }
  if (parts.empty()) return "matching GPUs were used without a lease until just now";
  return fmt::format("matching GPUs are used without a lease: {}", join(parts, "; "));
}

std::string why_memory(const Context& context, const lease::Wish& wish) {
  std::vector<std::string> unknown;
  for (const auto& [id, gpu] : context.leases.gpus().gpus()) {
    if (!gpu.free_bytes && !is_missing(gpu.info)) unknown.push_back(label_of(gpu.info));
  }
  return fmt::format(
      "too few of the matching GPUs have {:.1f} GiB of free memory{}; wait, or lower --min-free",
      lease::in_gib(wish.min_free_bytes),
      unknown.empty() ? "" : fmt::format(" (GPU {}: unknown)", fmt::join(unknown, ", ")));
}

std::string text_of(Context& context, const lease::Lease& lease, lease::Hindrance why,
                    const Viewer& viewer) {
  using enum lease::Hindrance;
  switch (why) {
    case busy:
      return why_busy(context, lease.wish);
    case behind_earlier:
      return "free GPUs are reserved for an earlier claim. See the order with `gpuyard queue`; "
             "claims with a short --max-time may go first";
    case quota:
      return context.leases.limit_text();
    case out_of_service:
      return why_out_of_service(context, lease.wish);
    case squatted:
      return why_squatted(context, lease.wish, viewer);
    case memory:
      return why_memory(context, lease.wish);
    case not_open:
      break;
  }
  const auto closed = context.leases.closed();
  return closed ? closed->text() : "no leases are granted at the moment";
}

}  // namespace

LeaseCache& board_of(Context& context) {
  if (!context.lease_board) {
    context.lease_board = std::make_shared<LeaseCache>(context.loop, context.leases);
  }
  return *context.lease_board;
}

protocol::LeasePlace place_of(Context& context, const lease::Lease& lease,
                              const lease::Outlook& outlook, const Viewer& viewer) {
  protocol::LeasePlace place;
  place.position = static_cast<std::int64_t>(outlook.position);
  place.why = enum_name(outlook.why);
  place.text = text_of(context, lease, outlook.why, viewer);
  if (outlook.expected) {
    const Duration left = std::max(*outlook.expected - context.loop.now(), Duration::zero());
    place.expected_s = std::chrono::duration<double>(left).count();
  }
  return place;
}

namespace {

std::optional<std::string> why_withheld(const Context& context, const std::vector<DeviceId>& gpus) {
  std::vector<std::string> parts;
  for (const DeviceId& gpu : gpus) {
    if (const auto why = withheld_of(context, gpu)) {
      parts.push_back(
          fmt::format("{} is withheld from leasing: {}", number_of(context, gpu), why->text));
    }
  }
  return parts.empty() ? std::nullopt : std::optional(join(parts, "; "));
}

// Says why a claim that does not wait got no GPUs.
std::string why_none_free(Context& context, const lease::Lease& lease) {
  const auto offer = context.leases.offer(lease.uid, lease.wish);
  if (!offer) return offer.error().text();
  const std::vector<DeviceId> gpus = fitting(context, lease.wish);
  const std::string holders = holders_of(context, gpus);
  if (offer->over_limit) return offer->why;
  if (holders.empty()) return why_withheld(context, gpus).value_or(offer->why);
  return fmt::format("{} of {} matching GPUs {} free; leased: {}", offer->free.size(), gpus.size(),
                     offer->free.size() == 1 ? "is" : "are", holders);
}

}  // namespace

protocol::Lease placed_view_of(Context& context, const lease::Lease& lease, const Viewer& viewer) {
  protocol::Lease view = view_of(context, lease, viewer);
  if (lease.ending == lease::Ending::none_free) view.why = why_none_free(context, lease);
  if (lease.state != lease::State::waiting) return view;
  const auto outlook = board_of(context).place(lease.id);
  if (outlook) view.place = place_of(context, lease, *outlook, viewer);
  return view;
}

}  // namespace gpuyard::api
