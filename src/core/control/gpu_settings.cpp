#include "core/control/gpu_settings.h"

namespace gpuyard::control {

const ManagedSetting* GpuSettings::find(SettingKind kind) const {
  const auto found = settings_.find(kind);
  return found == settings_.end() ? nullptr : &found->second;
}

void GpuSettings::persist(const ManagedSetting& managed, ControlStorage::OnSaved on_done) {
  ControlTransaction transaction;
  transaction.put = managed;
  if (record_at_once(transaction)) {
    settings_[managed.kind] = managed;
    return on_done({});
  }
  const auto on_saved = lifetime_.guard([this, managed,
                                         on_done = std::move(on_done)](const Result<void>& done) {
    if (!done) {
      return on_done(Error{Errc::unavailable,
                           "nothing was changed, because the change could not be recorded first: " +
                               done.error().text()});
    }
    settings_[managed.kind] = managed;
    on_done(done);
  });
  const auto timing = outlives_boot(managed.kind) ? CommitTiming::durable : CommitTiming::now;
  if (storage_.save(std::move(transaction), timing, on_saved)) return;
  loop_.post([on_saved] { on_saved(Error{Errc::busy, "the disk queue is full"}); });
}

bool GpuSettings::record_at_once(const ControlTransaction& transaction) {
  const SettingKind kind = transaction.put ? transaction.put->kind : transaction.removed->kind;
  return !outlives_boot(kind) && storage_.record(transaction, on_saved(kind));
}

void GpuSettings::record(const ManagedSetting& managed, CommitTiming timing) {
  settings_[managed.kind] = managed;
  save(managed.kind, timing);
}

void GpuSettings::remove(SettingKind kind) {
  if (settings_.erase(kind) > 0) save(kind, CommitTiming::now);
}

void GpuSettings::save(SettingKind kind, CommitTiming timing) {
  ControlTransaction transaction;
  if (const ManagedSetting* managed = find(kind)) {
    transaction.put = *managed;
  } else {
    transaction.removed = ManagedSetting{gpu_, kind};
  }
  if (timing == CommitTiming::now && record_at_once(transaction)) return;
  if (!storage_.save(std::move(transaction), timing, on_saved(kind))) save_later(kind);
}

ControlStorage::OnSaved GpuSettings::on_saved(SettingKind kind) {
  return lifetime_.guard([this, kind](const Result<void>& done) {
    if (!done) save_later(kind);
  });
}

void GpuSettings::save_later(SettingKind kind) {
  unsaved_.insert(kind);
  retry_timer_ = loop_.call_after(kRetryDelay, [this] {
    for (const SettingKind one : std::exchange(unsaved_, {})) save(one, CommitTiming::now);
  });
}

}  // namespace gpuyard::control
