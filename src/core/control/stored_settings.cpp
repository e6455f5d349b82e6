#include "core/control/stored_settings.h"

namespace gpuyard::control {

void StoredSettings::start() {
  early_timer_ = loop_.call_after(kLoadTimeout, [this] { release(); });
  load();
}

void StoredSettings::load() {
  const bool accepted = storage_.load(lifetime_.guard(
      [this](Result<std::vector<ManagedSetting>> saved) { on_loaded(std::move(saved)); }));
  if (!accepted) load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
}

void StoredSettings::on_loaded(Result<std::vector<ManagedSetting>> saved) {
  if (saved) {
    error_.reset();
    loaded_ = true;
    listener_.on_loaded(*std::move(saved));
  } else {
    error_ = saved.error();
    load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
  }
  release();
}

bool StoredSettings::hold(const ChangeRequest& request,
                          const ChangeCollector::OnChanges& on_changes) {
  if (!holds_requests_ || early_requests_.size() >= kMaxEarlyRequests) return false;
  early_requests_.emplace_back(request, on_changes);
  return true;
}

void StoredSettings::release() {
  early_timer_.reset();
  holds_requests_ = false;
  for (const auto& [request, on_changes] : std::exchange(early_requests_, {}))
    listener_.submit(request, on_changes);
}

}  // namespace gpuyard::control
