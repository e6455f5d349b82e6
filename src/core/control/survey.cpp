#include "core/control/survey.h"

#include <memory>
#include <utility>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct SettingsQuery {
  std::vector<SettingReading> all;
  std::size_t missing = 0;
  std::function<void(const std::vector<SettingReading>&)> on_done;
  Subscription timeout_timer;

  void finish() {
    timeout_timer.reset();
    if (const auto callback = std::exchange(on_done, nullptr)) callback(all);
  }
};

}  // namespace

void read_settings(Loop& loop, SettingController& control, const std::vector<DeviceId>& gpus,
                   Duration timeout,
                   std::function<void(const std::vector<SettingReading>&)> on_done) {
  const auto query = std::make_shared<SettingsQuery>();
  query->on_done = std::move(on_done);
  for (const DeviceId& gpu : gpus) {
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>(
        [&](auto kind) { query->all.push_back({gpu, kind.value}); });
  }
  query->missing = query->all.size() + 1;
  const auto one_less = [query] {
    if (--query->missing == 0) query->finish();
  };
  for (std::size_t i = 0; i < query->all.size(); ++i) {
    control.read_setting(query->all[i].gpu, query->all[i].kind,
                         [query, one_less, i](const Result<SettingState>& state) {
                           query->all[i].state = state;
                           one_less();
                         });
  }
  // Weak: the reads in progress own the query, and a timer must not.
  query->timeout_timer = loop.call_after(timeout, [weak = std::weak_ptr(query)] {
    if (const auto late = weak.lock()) late->finish();
  });
  loop.post(one_less);
}

}  // namespace gpuyard::control
