// The routes for a view of many machines: the brief, and the GPUs that a claim would get now.
#include <algorithm>

#include <fmt/format.h>

#include "base/identifiers.h"
#include "base/json_writer.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/lease_view.h"
#include "faces/api/responder.h"
#include "faces/protocol/brief.h"

namespace gpuyard::api {
namespace {

using protocol::number_of;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

std::optional<std::int64_t> mebibytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional(*bytes / kMebibyte) : std::nullopt;
}

std::optional<std::int64_t> watts(const std::optional<std::int64_t>& milliwatts) {
  constexpr std::int64_t kWatt = 1000;
  return milliwatts ? std::optional((*milliwatts + kWatt / 2) / kWatt) : std::nullopt;
}

std::uint32_t find_or_add_model(std::vector<protocol::BriefModel>& models, const DeviceState& gpu) {
  const auto memory = mebibytes(number_of(gpu.sample, Metric::memory_total));
  const auto same = [&](const protocol::BriefModel& model) {
    return model.name == gpu.info.name && model.memory_mib == memory;
  };
  const auto found = std::ranges::find_if(models, same);
  const auto index = static_cast<std::uint32_t>(found - models.begin());
  if (found == models.end()) models.push_back({gpu.info.name, memory});
  return index;
}

// The use of a GPU, and why it is withheld.
struct Occupancy {
  protocol::GpuUse use = protocol::GpuUse::free;
  std::optional<std::string> user = {};
  std::optional<std::string> why = {};
};

Occupancy occupancy_of(const BriefApi& api, const DeviceId& id,
                       const std::map<DeviceId, const lease::Lease*>& holders) {
  using enum protocol::GpuUse;
  if (const auto held = holders.find(id); held != holders.end()) {
    const lease::Lease& lease = *held->second;
    return {lease.state == lease::LeaseState::draining ? draining : leased,
            display_name(api.users, lease.uid)};
  }
  const auto& unleased = api.leases.gpus().unleased().all();
  if (const auto found = unleased.find(id); found != unleased.end() && !found->second.empty()) {
    // The owner of a process that cannot be seen from here is not known.
    const auto known =
        std::ranges::find(found->second, lease::ObservedProcess::Attribution::outsider,
                          &lease::ObservedProcess::attribution);
    if (known == found->second.end()) return {outside};
    return {outside, display_name(api.users, known->uid)};
  }
  if (auto why = api.leases.gpus().withheld_reason(id))
    return {withheld, {}, std::move(why->first)};
  return {};
}

void add_gpu(const BriefApi& api, const DeviceState& gpu,
             const std::map<DeviceId, const lease::Lease*>& holders, protocol::Brief& brief) {
  protocol::BriefGpus& gpus = brief.gpus;
  Occupancy occupancy = occupancy_of(api, gpu.info.id, holders);
  gpus.index.push_back(gpu.info.index);
  gpus.uuid.push_back(gpu.info.uuid);
  gpus.model.push_back(find_or_add_model(brief.models, gpu));
  gpus.use.push_back(occupancy.use);
  gpus.user.push_back(std::move(occupancy.user));
  gpus.why.push_back(std::move(occupancy.why));
  gpus.health.push_back(gpu.health.verdict);
  gpus.utilization_percent.push_back(number_of(gpu.sample, Metric::utilization_gpu));
  gpus.memory_free_mib.push_back(mebibytes(number_of(gpu.sample, Metric::memory_free)));
  gpus.temperature_c.push_back(number_of(gpu.sample, Metric::temperature_core));
  gpus.power_w.push_back(watts(number_of(gpu.sample, Metric::power_draw)));
}

void count_alerts(const BriefApi& api, const Principal& caller, protocol::Brief& brief) {
  for (const andon::Alert& alert : api.alerts.engine().firing_alerts()) {
    if (alert.acknowledged || api.alerts.silences().is_silenced(alert)) continue;
    if (!caller.gpus.empty() && !caller.can_see(alert.gpu)) continue;
    ++brief.alerts;
    const AlertLevel level = andon::level_of(alert.severity);
    brief.worst_alert = std::max(brief.worst_alert.value_or(level), level);
  }
}

std::map<std::string, std::string> configuration_of(const BriefApi& api) {
  auto digests = api.configuration;
  std::string rules;
  for (const andon::Rule& rule : api.alerts.engine().rules()) {
    rules += json::to_json(protocol::Rule(rule));
  }
  digests.emplace("rules", fmt::format("{:016x}", std::hash<std::string>{}(rules)));
  return digests;
}

std::string brief_of(const BriefApi& api, const Principal& caller) {
  const telemetry::SnapshotPtr snapshot = visible_snapshot(api.telemetry, caller);
  protocol::Brief brief;
  brief.simulated = snapshot->driver.info.simulated;
  brief.host = host_name();
  brief.instance = api.daemon.instance;
  brief.version = api.daemon.version;
  brief.driver_version = protocol::driver_info_of(snapshot->driver.info).driver_version;
  if (!snapshot->driver.initialised) brief.driver_error = snapshot->driver.why;
  if (caller.gpus.empty()) {
    brief.waiting = static_cast<std::int64_t>(api.leases.waiting_claim_count());
  }
  count_alerts(api, caller, brief);
  brief.configuration = configuration_of(api);
  std::map<DeviceId, const lease::Lease*> holders;
  for (const lease::Lease* lease : api.leases.leases_with_gpus()) {
    for (const DeviceId& gpu : lease->gpus) holders.insert_or_assign(gpu, lease);
  }
  for (const DeviceState& gpu : snapshot->devices) add_gpu(api, gpu, holders, brief);
  return json::to_json(brief);
}

void get_brief(BriefApi& api, const RouteCall& call, const NoParams&,
               const Responder<protocol::Brief>& respond) {
  const bool whole = call.principal.gpus.empty();
  // Both numbers only grow, so their sum changes with either.
  const std::uint64_t state = api.telemetry.latest()->generation + api.lease_changes;
  const auto render = [&] { return brief_of(api, call.principal); };
  const auto body =
      whole ? api.brief.get(state, render) : std::make_shared<const std::string>(render());
  http::Response response{200, "application/json", body};
  response.etag = fmt::format("\"{:016x}\"", std::hash<std::string_view>{}(*body));
  respond.send(std::move(response));
}

protocol::FreeGpu free_gpu_of(const DeviceState& gpu, const std::vector<DeviceId>& chosen) {
  return {gpu.info.index,
          gpu.info.uuid,
          gpu.info.name,
          number_of(gpu.sample, Metric::memory_free),
          number_of(gpu.sample, Metric::temperature_core),
          gpu.health.verdict,
          std::ranges::find(chosen, gpu.info.id) != chosen.end()};
}

bool are_linked(const lease::GpuPool& gpus, const std::vector<DeviceId>& chosen) {
  const auto clique = [&](const DeviceId& id) {
    const auto found = gpus.gpus().find(id);
    return found == gpus.gpus().end() ? std::nullopt : found->second.clique;
  };
  if (chosen.size() < 2) return false;
  const auto first = clique(chosen.front());
  return first && std::ranges::all_of(chosen, [&](const auto& id) { return clique(id) == first; });
}

void get_free(BriefApi& api, const RouteCall& call, const protocol::FreeQuery& query,
              const Responder<protocol::FreeGpus>& respond) {
  protocol::LeaseRequest body;
  body.gpus = query.gpus;
  body.min_free_bytes = query.min_free_bytes;
  body.model = query.model;
  const telemetry::SnapshotPtr snapshot = visible_snapshot(api.telemetry, call.principal);
  auto spec = protocol::lease_spec_of(body, *snapshot);
  if (!spec) return respond(std::move(spec).error().in("query"));
  spec->allowed_gpus = call.principal.gpus;
  // A caller who is not known has no quota.
  const auto offer = api.leases.offer(call.principal.uid.value_or(static_cast<uid_t>(-1)), *spec);
  if (!offer) return respond(offer.error());
  protocol::FreeGpus answer;
  answer.simulated = snapshot->driver.info.simulated;
  answer.enough = !offer->chosen.empty();
  answer.why = offer->reason;
  if (call.principal.gpus.empty()) {
    answer.waiting = static_cast<std::int64_t>(api.leases.waiting_claim_count());
  }
  answer.capacity = static_cast<std::int64_t>(snapshot->devices.size());
  answer.linked = are_linked(api.leases.gpus(), offer->chosen);
  for (const DeviceState& gpu : snapshot->devices) {
    if (std::ranges::find(offer->free, gpu.info.id) == offer->free.end()) continue;
    answer.gpus.push_back(free_gpu_of(gpu, offer->chosen));
  }
  respond(std::move(answer));
}

}  // namespace

std::vector<BoundRoute> brief_routes() {
  return {bind(protocol::kBrief, &get_brief), bind(protocol::kFree, &get_free)};
}

}  // namespace gpuyard::api
