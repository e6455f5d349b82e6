#include "api/queue_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/lease_reasons.h"
#include "base/json_writer.h"

namespace gpuyard::api {
namespace {

std::string row_text(Context& context, const lease::Lease& lease, const lease::Outlook& outlook,
                     const Viewer& viewer) {
  protocol::Lease view = view_of(context, lease, viewer);
  view.place = place_of(context, lease, outlook, viewer);
  return json::to_json(view);
}

// All but those who wait.
protocol::Queue rest_of(const Context& context, const Viewer& viewer) {
  const lease::Leases& leases = *context.leases;
  protocol::Queue queue;
  queue.simulated = simulated(context);
  queue.pending_claimers = static_cast<std::int64_t>(leases.pending_claimers());
  for (const auto& [gpu, outside] : leases.gpus().outside()) {
    for (const lease::Seen& process : outside) {
      if (process.verdict != lease::Seen::Verdict::outsider) continue;
      queue.squatters.push_back(squatter_of(context, gpu, process, viewer));
    }
  }
  std::ranges::sort(queue.squatters, {},
                    [](const protocol::Squatter& one) { return std::pair(one.index, one.pid); });
  for (const auto& [gpu, slot] : leases.gpus().gpus()) {
    if (auto one = withheld_of(context, gpu)) queue.withheld.push_back(*std::move(one));
  }
  std::ranges::sort(queue.withheld, {}, &protocol::Withheld::index);
  queue.notes = leases.notes();
  return queue;
}

bool has_squatter(const lease::GpuBook& gpus, uid_t uid) {
  return std::ranges::any_of(gpus.outside(), [&](const auto& one) {
    return std::ranges::count(one.second, uid, &lease::Seen::uid) > 0;
  });
}

}  // namespace

void QueueText::look(Context& context) {
  looked_ = context.loop->now();
  told_.clear();
  rows_.clear();
  for (lease::WaitingOutlook& one : context.leases->outlooks(kMostShown)) {
    const lease::Lease* lease = context.leases->find(one.lease);
    if (lease == nullptr || lease->state != lease::State::waiting) continue;
    rows_.push_back({std::move(one.lease), lease->uid, one.outlook, {}, {}});
  }
}

std::string QueueText::render(Context& context, const Viewer& viewer) const {
  std::string text = json::to_json(rest_of(context, viewer));
  std::string waiting;
  for (const Row& row : rows_) {
    const lease::Lease* lease = context.leases->find(row.lease);
    // What is told again may have changed since it was looked at.
    if (lease == nullptr || lease->state != lease::State::waiting) continue;
    if (!waiting.empty()) waiting += ',';
    const std::string& shared = viewer.local() ? row.for_local : row.for_tcp;
    if (viewer.owns(row.uid) || shared.empty()) {
      waiting += row_text(context, *lease, row.outlook, viewer);
    } else {
      waiting += shared;
    }
  }
  constexpr std::string_view kNone = "\"waiting\":[";
  return text.insert(text.find(kNone) + kNone.size(), waiting);
}

std::shared_ptr<const std::string> QueueText::of(Context& context, const Viewer& viewer) {
  const bool few = context.leases->pending_claimers() <= kFew;
  if (few || !looked_ || context.loop->now() - *looked_ >= kToldAgain) look(context);
  if (few) return std::make_shared<const std::string>(render(context, viewer));
  // For strangers, whoever is the first of them.
  const auto waits = [&] { return std::ranges::count(rows_, *viewer.uid, &Row::uid) > 0; };
  const bool his_own = viewer.local() && (viewer.admin || waits() ||
                                          has_squatter(context.leases->gpus(), *viewer.uid));
  const std::string sees = !viewer.local() ? "tcp"
                           : viewer.admin  ? "admin"
                           : his_own       ? std::to_string(*viewer.uid)
                                           : "local";
  for (Row& row : rows_) {
    std::string& shared = viewer.local() ? row.for_local : row.for_tcp;
    const lease::Lease* lease = context.leases->find(row.lease);
    if (!shared.empty() || lease == nullptr || viewer.admin) continue;
    const Viewer stranger{viewer.local() ? std::optional(static_cast<uid_t>(-1)) : std::nullopt};
    shared = row_text(context, *lease, row.outlook, stranger);
  }
  auto& told = told_[sees];
  if (!told) told = std::make_shared<const std::string>(render(context, viewer));
  return told;
}

}  // namespace gpuyard::api
