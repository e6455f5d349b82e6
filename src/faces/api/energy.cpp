// What the GPUs used, and windows that measure it.
#include <fmt/format.h>

#include "api/handlers.h"

namespace gpuyard::api {
namespace {

using WindowResponder = Responder<protocol::EnergyWindow>;

// Answers with a window's result once the meter has it.
energy::Meter::Answer answer_with(Context& context, WindowResponder respond) {
  // Shared, because a std::function must be copyable; answered once all the same.
  const auto answer = std::make_shared<WindowResponder>(std::move(respond));
  return [&context, answer](const Result<energy::WindowResult>& result) {
    if (!result) return (*answer)(result.error());
    auto window = protocol::energy_window_of(*result, *context.telemetry.latest());
    window.notes = context.energy->notes();
    (*answer)(std::move(window));
  };
}

void get_energy(Context& context, const NoParams&, Responder<protocol::EnergyReport> respond) {
  auto report = protocol::energy_report_of(context.energy->ledger(), *context.telemetry.latest());
  report.notes = context.energy->notes();
  respond(std::move(report));
}

void begin_energy_window(Context& context, const Asked& asked, const NoParams&,
                         const protocol::EnergyWindowWish& body, WindowResponder respond) {
  // Its scope is above what TCP has, so the kernel vouched for somebody.
  auto wish = protocol::window_wish_of(body, asked.principal.uid.value_or(0));
  if (!wish) return respond(std::move(wish).error());
  context.energy->begin(*std::move(wish), answer_with(context, std::move(respond)));
}

void get_energy_windows(Context& context, const NoParams&,
                        Responder<protocol::EnergyWindows> respond) {
  const Snapshot& latest = *context.telemetry.latest();
  protocol::EnergyWindows all;
  for (const energy::WindowResult& result : context.energy->ledger().results(latest.taken)) {
    all.windows.push_back(protocol::energy_window_of(result, latest));
  }
  respond(std::move(all));
}

void get_energy_window(Context& context, const protocol::WindowName& name,
                       WindowResponder respond) {
  context.energy->look(name.window, answer_with(context, std::move(respond)));
}

void end_energy_window(Context& context, const Asked& asked, const protocol::WindowName& name,
                       WindowResponder respond) {
  const auto window = context.energy->ledger().find(name.window);
  if (!window) return respond(window.error());
  const bool admin = asked.principal.scope >= protocol::Scope::admin;
  if (!admin && asked.principal.uid != (*window)->owner) {
    return respond(
        Error{Errc::denied, fmt::format("the window is of uid {}; who began it may end it, or an "
                                        "administrator",
                                        (*window)->owner)});
  }
  context.energy->end(name.window, answer_with(context, std::move(respond)));
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

}  // namespace gpuyard::api
