// What can be set of GPUs: an order for control, and its outcomes as one answer.
#include <memory>

#include "zeus/handlers.h"
#include "zeus/ids.h"

namespace gpuyard::zeus {
namespace {

void answer_outcomes(const Answer& answer, const std::vector<Outcome>& outcomes) {
  DeviceErrors errors;
  for (const Outcome& one : outcomes) {
    if (!one.done) errors.insert_or_assign(one.index, one.done.error());
  }
  if (errors.empty()) return answer.done();
  answer.failed(errors);
}

Order order_of(const Write& write, const Call& call, std::vector<DeviceInfo> gpus, SettingKind kind,
               std::optional<Setting> setting) {
  return {call.request.peer.uid, std::move(gpus),      kind, setting, write.block,
          call.request.id,       call.request.received};
}

void give(Context& context, const Write& write, const Call& call, SettingKind kind,
          std::optional<Setting> setting) {
  auto gpus = gpus_named(*context.gpus.latest(), write.gpu_ids);
  if (!gpus) return call.answer.refuse(gpus.error());
  context.control.order(order_of(write, call, *std::move(gpus), kind, setting),
                        [answer = call.answer](const std::vector<Outcome>& outcomes) {
                          answer_outcomes(answer, outcomes);
                        });
}

}  // namespace

void set_power_limit(Context& context, const PowerLimitWrite& write, const Call& call) {
  give(context, write, call, SettingKind::power_limit, power_limit(write.power_limit_mw));
}

void set_persistence_mode(Context& context, const PersistenceWrite& write, const Call& call) {
  give(context, write, call, SettingKind::persistence, persistence(write.enabled));
}

void set_gpu_clocks(Context& context, const ClocksWrite& write, const Call& call) {
  give(context, write, call, SettingKind::gpu_clocks,
       gpu_clocks(write.min_clock_mhz, write.max_clock_mhz));
}

void set_memory_clocks(Context& context, const ClocksWrite& write, const Call& call) {
  give(context, write, call, SettingKind::memory_clocks,
       memory_clocks(write.min_clock_mhz, write.max_clock_mhz));
}

void reset_gpu_clocks(Context& context, const Write& write, const Call& call) {
  give(context, write, call, SettingKind::gpu_clocks, std::nullopt);
}

void reset_memory_clocks(Context& context, const Write& write, const Call& call) {
  give(context, write, call, SettingKind::memory_clocks, std::nullopt);
}

// Both, one after the other: what came of each GPU is what came of both.
void reset_clocks(Context& context, const Write& write, const Call& call) {
  auto gpus = gpus_named(*context.gpus.latest(), write.gpu_ids);
  if (!gpus) return call.answer.refuse(gpus.error());
  auto memory = order_of(write, call, *gpus, SettingKind::memory_clocks, std::nullopt);
  context.control.order(
      order_of(write, call, *std::move(gpus), SettingKind::gpu_clocks, std::nullopt),
      [&context, answer = call.answer,
       memory = std::move(memory)](const std::vector<Outcome>& of_gpu) {
        context.control.order(memory, [answer, of_gpu](const std::vector<Outcome>& of_memory) {
          std::vector<Outcome> both = of_gpu;
          both.insert(both.end(), of_memory.begin(), of_memory.end());
          answer_outcomes(answer, both);
        });
      });
}

}  // namespace gpuyard::zeus
