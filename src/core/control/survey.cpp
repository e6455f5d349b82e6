#include "core/control/survey.h"

#include <memory>
#include <utility>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct Survey {
  std::vector<Surveyed> all;
  std::size_t missing = 0;
  std::function<void(const std::vector<Surveyed>&)> told;
  Subscription patience;

  void tell() {
    patience.reset();
    if (const auto told_now = std::exchange(told, nullptr)) told_now(all);
  }
};

}  // namespace

void survey(Loop& loop, Control& control, const std::vector<DeviceId>& gpus, Duration patience,
            std::function<void(const std::vector<Surveyed>&)> told) {
  const auto survey = std::make_shared<Survey>();
  survey->told = std::move(told);
  for (const DeviceId& gpu : gpus) {
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>(
        [&](auto kind) { survey->all.push_back({gpu, kind.value}); });
  }
  survey->missing = survey->all.size() + 1;
  const auto one_less = [survey] {
    if (--survey->missing == 0) survey->tell();
  };
  for (std::size_t i = 0; i < survey->all.size(); ++i) {
    control.look(survey->all[i].gpu, survey->all[i].kind,
                 [survey, one_less, i](const Result<SettingState>& seen) {
                   survey->all[i].seen = seen;
                   one_less();
                 });
  }
  // Weak: the looks under way own the survey, and a timer must not.
  survey->patience = loop.call_after(patience, [weak = std::weak_ptr(survey)] {
    if (const auto late = weak.lock()) late->tell();
  });
  loop.post(one_less);
}

}  // namespace gpuyard::control
