// The routes of energy: the use of the GPUs, and windows that measure it.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_writer.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/responder.h"
#include "faces/protocol/events.h"
#include "io/http/event_stream.h"

namespace gpuyard::api {
namespace {

using WindowResponder = Responder<protocol::EnergyWindow>;

void add_notes(std::vector<std::string>& notes, const std::vector<std::string>& more) {
  notes.insert(notes.end(), more.begin(), more.end());
}

// Answers with a window's result once the meter has it.
energy::Meter::OnWindow answer_with(EnergyApi& api, const WindowResponder& respond) {
  return [&api, respond](const Result<energy::WindowResult>& result) {
    if (!result) return respond(result.error());
    auto window = protocol::energy_window_of(*result, *api.telemetry.latest());
    window.estimate = protocol::estimate_of_joules(api.tariff, window.joules);
    add_notes(window.notes, api.energy.notes());
    respond(std::move(window));
  };
}

void get_energy(EnergyApi& api, const NoParams&, const Responder<protocol::EnergyReport>& respond) {
  auto report = protocol::energy_report_of(api.energy.ledger(), *api.telemetry.latest());
  add_notes(report.notes, api.energy.notes());
  protocol::put_estimates(report, api.tariff);
  respond(std::move(report));
}

void begin_energy_window(EnergyApi& api, const RouteCall& call, const NoParams&,
                         const protocol::EnergyWindowRequest& body,
                         const WindowResponder& respond) {
  // The route's scope is above TCP's, so the kernel has given a uid.
  auto window_request = protocol::window_request_of(body, call.principal.uid.value_or(0));
  if (!window_request) return respond(std::move(window_request).error());
  window_request->privileged = requester_of(call).privileged;
  if (!call.principal.gpus.empty()) {
    const std::string names = fmt::format("{}", fmt::join(window_request->gpus, ","));
    auto gpus = resolve_gpu_ids(*visible_snapshot(api.telemetry, call.principal),
                                names.empty() ? "all" : names);
    if (!gpus) return respond(std::move(gpus).error());
    window_request->gpus = *std::move(gpus);
  }
  api.energy.begin(*std::move(window_request), answer_with(api, respond));
}

void get_energy_windows(EnergyApi& api, const NoParams&,
                        const Responder<protocol::EnergyWindows>& respond) {
  const Snapshot& latest = *api.telemetry.latest();
  protocol::EnergyWindows all;
  for (const energy::WindowResult& result : api.energy.ledger().results(latest.taken)) {
    all.windows.push_back(protocol::energy_window_of(result, latest));
    all.windows.back().estimate =
        protocol::estimate_of_joules(api.tariff, all.windows.back().joules);
  }
  respond(std::move(all));
}

// The window, unless it measures GPUs that the caller's token is not for.
Result<const energy::Window*> find_visible_window(const EnergyApi& api, const RouteCall& call,
                                                  const std::string& name) {
  auto window = api.energy.find(name);
  if (!window) return window;
  for (const energy::WindowGpu& gpu : (*window)->gpus) {
    if (!call.principal.can_see(gpu.uuid)) {
      return Error{Errc::denied, "the window measures GPUs that this token does not include"};
    }
  }
  return window;
}

void get_energy_window(EnergyApi& api, const RouteCall& call, const protocol::WindowName& name,
                       const WindowResponder& respond) {
  const auto window = find_visible_window(api, call, name.window);
  if (!window && window.error().code == Errc::denied) return respond(window.error());
  api.energy.measure(name.window, answer_with(api, respond));
}

void end_energy_window(EnergyApi& api, const RouteCall& call, const protocol::WindowName& name,
                       const WindowResponder& respond) {
  const auto window = find_visible_window(api, call, name.window);
  if (!window) return respond(window.error());
  const bool admin = call.principal.scope >= protocol::Scope::admin;
  if (!admin && call.principal.uid != (*window)->owner) {
    return respond(Error{
        Errc::denied,
        fmt::format("the window belongs to UID {}; only that user or an administrator can end it",
                    (*window)->owner)});
  }
  if (call.principal.uid != (*window)->owner) {
    call.report_action(
        fmt::format("end energy window {} of uid {}", name.window, (*window)->owner));
  }
  api.energy.end(name.window, answer_with(api, respond));
}

protocol::PowerSample sample_of(const DeviceInfo& gpu, const Reading& reading,
                                const Snapshot& newest) {
  protocol::PowerSample sample;
  sample.index = gpu.index;
  sample.uuid = gpu.uuid;
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(newest.taken - reading.taken);
  sample.t_ms = (newest.wall - age).time_since_epoch().count();
  if (const auto* milliwatts = reading.number()) {
    sample.power_w = static_cast<double>(*milliwatts) / 1000;
  } else if (const Missing* missing = reading.missing()) {
    sample.why = describe(*missing);
  }
  sample.instant = reading.metric == Metric::power_draw_instant;
  return sample;
}

// Sends each reading of one GPU to the channel.
Subscription subscribe_power(telemetry::Telemetry& telemetry, const DeviceInfo& info,
                             Duration period, http::Channel& channel) {
  const auto gpu = std::make_shared<const DeviceInfo>(info);
  return telemetry.subscribe_power(
      info.id, period, [&telemetry, gpu, &channel](const Reading& now) {
        channel.publish([&telemetry, gpu, now](std::uint64_t skipped) {
          protocol::PowerSample sample = sample_of(*gpu, now, *telemetry.latest());
          sample.skipped = skipped;
          return http::event_chunk(protocol::kPowerEvent, json::to_json(sample));
        });
      });
}

// Streams power as fast as it is worth reading, for as long as a client listens. A slow listener
// gets the newest reading of each GPU and the number that it missed: nothing is queued for it, and
// it slows no other listener down.
void get_power_stream(GpuApi& api, const RouteCall& call,
                      const protocol::PowerStreamRequest& request, const Responder<Text>& respond) {
  const double hz = request.hz.value_or(protocol::kDefaultPowerHz);
  const auto gpus =
      resolve_gpus(*visible_snapshot(api.telemetry, call.principal), request.gpus.value_or(""));
  if (!gpus) return respond(gpus.error());
  const auto period =
      std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(1 / hz));
  std::vector<std::shared_ptr<http::Channel>> channels;
  for (const DeviceInfo& gpu : *gpus) {
    channels.push_back(
        api.power_channels.get({gpu.id, gpu.index, period}, [&](http::Channel& channel) {
          return subscribe_power(api.telemetry, gpu, period, channel);
        }));
  }
  respond.send(
      http::event_stream(std::make_shared<http::ChannelStream>(std::move(channels), true)));
}

}  // namespace

std::vector<BoundRoute> energy_routes() {
  return {
      bind(protocol::kEnergy, &get_energy),
      bind(protocol::kBeginEnergyWindow, &begin_energy_window),
      bind(protocol::kEnergyWindows, &get_energy_windows),
      bind(protocol::kEnergyWindow, &get_energy_window),
      bind(protocol::kEndEnergyWindow, &end_energy_window),
  };
}

std::vector<BoundRoute> power_stream_routes() {
  return {bind(protocol::kPowerStream, &get_power_stream)};
}

}  // namespace gpuyard::api
