#include "api/figures.h"

#include <algorithm>

#include "andon/severity.h"

namespace gpuyard::api {

metrics::LeaseFigures lease_figures(const lease::Leases& leases) {
  metrics::LeaseFigures figures;
  for (const auto& [id, gpu] : leases.gpus().gpus()) {
    figures.gpus.emplace_back(gpu.info.index, leases.leased(id));
  }
  std::ranges::sort(figures.gpus);
  figures.held = leases.with_gpus().size();
  figures.waiting = leases.pending_claimers();
  figures.grants = leases.last_fence();
  return figures;
}

metrics::AlertFigures alert_figures(const Context& context) {
  const andon::Board& board = *context.alerts;
  metrics::AlertFigures figures;
  for (const andon::Alert& alert : board.engine().firing()) {
    figures.firing.push_back({alert.rule, std::string(name_of(andon::level_of(alert.severity))),
                              alert.severity, alert.gpu.empty() ? std::nullopt : alert.index,
                              alert.acknowledged.has_value(), board.silences().covers(alert)});
  }
  figures.pending = board.engine().pending(context.loop->now()).size();
  figures.rules = static_cast<std::size_t>(
      std::ranges::count(board.engine().rules(), true, &andon::Rule::enabled));
  figures.tick = context.alert_cost;
  if (context.alert_sinks == nullptr) return figures;
  for (const protocol::Sink& sink : context.alert_sinks->sinks()) {
    figures.sinks.push_back({sink.name, sink.kind, static_cast<std::size_t>(sink.queued),
                             sink.delivered_total, sink.retries_total, sink.dead_letters_total});
  }
  return figures;
}

}  // namespace gpuyard::api
