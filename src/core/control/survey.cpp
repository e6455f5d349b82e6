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
    if (const auto told_now = std::exchange(on_done, nullptr)) told_now(all);
  }
};

}  // namespace

void read_settings(Loop& loop, SettingController& control, const std::vector<DeviceId>& gpus,
                   Duration patience,
                   std::function<void(const std::vector<SettingReading>&)> told) {
  const auto survey = std::make_shared<SettingsQuery>();
  survey->on_done = std::move(told);
  for (const DeviceId& gpu : gpus) {
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>(
        [&](auto kind) { survey->all.push_back({gpu, kind.value}); });
  }
  survey->missing = survey->all.size() + 1;
  const auto one_less = [survey] {
    if (--survey->missing == 0) survey->finish();
  };
  for (std::size_t i = 0; i < survey->all.size(); ++i) {
    control.read_setting(survey->all[i].gpu, survey->all[i].kind,
                         [survey, one_less, i](const Result<SettingState>& seen) {
                           survey->all[i].state = seen;
                           one_less();
                         });
  }
  // Weak: the looks under way own the survey, and a timer must not.
  survey->timeout_timer = loop.call_after(patience, [weak = std::weak_ptr(survey)] {
    if (const auto late = weak.lock()) late->finish();
  });
  loop.post(one_less);
}

}  // namespace gpuyard::control
