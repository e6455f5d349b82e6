#include "faces/api/verdict.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/responder.h"
#include "gpu/device/fitness.h"

namespace gpuyard::api {
namespace {

using protocol::GpuVerdict;
using protocol::GpuVerdicts;

// MIG mode keeps a GPU from being leased, and does not make it a bad one.
bool is_in_mig_mode(const Fitness& fitness) {
  return fitness.word == "mig_enabled";
}

// The verdict on a GPU that no alert quarantines.
void judge_readings(GpuVerdict& out, const DeviceState& gpu) {
  Fitness fitness = fitness_of(gpu);
  if (is_in_mig_mode(fitness)) {
    out.why = unknown_readings(gpu);
    out.verdict = out.why.empty() ? Verdict::good : Verdict::unknown;
    return;
  }
  switch (fitness.verdict) {
    case Verdict::good:
      out.verdict = Verdict::good;
      return;
    case Verdict::bad:
      out.why = fmt::format("{} (no alert quarantines it)", fitness.why);
      return;
    case Verdict::unknown:
      out.why = std::move(fitness.why);
      return;
  }
}

void get_verdict(VerdictApi& api, const RouteCall& call, const NoParams&,
                 const Responder<GpuVerdicts>& respond) {
  const telemetry::SnapshotPtr snapshot = visible_snapshot(api.telemetry, call.principal);
  GpuVerdicts verdicts;
  verdicts.simulated = snapshot->driver.info.simulated;
  if (!snapshot->driver.initialised) verdicts.driver_error = snapshot->driver.why;
  verdicts.driver_down = is_driver_down(api);
  for (const DeviceState& gpu : snapshot->devices) verdicts.gpus.push_back(verdict_of(api, gpu));
  verdicts.count = verdicts.gpus.size();
  respond(std::move(verdicts));
}

}  // namespace

// A driver that reports no minor numbers has them in the order of its indexes.
std::optional<std::int64_t> minor_of(VerdictApi& api, const DeviceState& gpu) {
  if (const auto minor = gpu.sample.value(Metric::minor_number)) {
    api.minors.insert_or_assign(gpu.info.id, *minor);
  }
  const auto known = api.minors.find(gpu.info.id);
  if (known != api.minors.end()) return known->second;
  const bool never = gpu.sample.is_unsupported(Metric::minor_number);
  return never ? std::optional<std::int64_t>(gpu.info.index) : std::nullopt;
}

bool is_driver_down(const VerdictApi& api) {
  return std::ranges::any_of(api.alerts.engine().firing_alerts(), [](const auto& alert) {
    return alert.rule == "driver-down" && !alert.acknowledged;
  });
}

GpuVerdict verdict_of(VerdictApi& api, const DeviceState& gpu) {
  GpuVerdict out;
  out.index = gpu.info.index;
  out.minor = minor_of(api, gpu);
  out.uuid = gpu.info.uuid;
  out.pci_address = gpu.info.pci_address;
  out.name = gpu.info.name;
  if (auto quarantine = api.alerts.quarantine(gpu.info.id)) {
    out.verdict = Verdict::bad;
    out.rule = std::move(quarantine->rule);
    out.why = std::move(quarantine->message);
    out.advice = std::move(quarantine->advice);
  } else {
    judge_readings(out, gpu);
  }
  if (auto cordon = api.leases.gpus().cordon_of(gpu.info.id))
    out.cordoned = std::move(cordon->reason);
  return out;
}

std::vector<BoundRoute> verdict_routes() {
  return {bind(protocol::kVerdict, &get_verdict)};
}

}  // namespace gpuyard::api
