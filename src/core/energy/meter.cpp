#include "core/energy/meter.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::energy {

Meter::Meter(Loop& loop, FreshReader& reader, EnergyStorage& storage, std::string boot_id)
    : loop_(loop), reader_(reader), storage_(storage), ledger_(std::move(boot_id)) {}

void Meter::start() {
  load();
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
}

void Meter::stop() {
  if (restored_) save_next();
}

void Meter::load() {
  if (loading_) return;
  loading_ = storage_.load(lifetime_.guard([this](Result<LedgerState> state) {
    loading_ = false;
    load_failed_ = !state;
    if (!state) return;  // the storage says what is wrong with it
    restored_ = true;
    ledger_.restore(*std::move(state), loop_.now(), loop_.wall());
    ledger_.mark_all_changed();
  }));
}

void Meter::tick() {
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
  for (const WindowResult& result : ledger_.end_overdue(loop_.now())) {
    ended_log_.write(log::Level::info, loop_.now(),
                     fmt::format("energy window {} \"{}\" of uid {} has ended", result.window.id,
                                 result.window.name, result.window.owner));
  }
  if (!restored_) return load();
  save([] {});
}

// Saves nothing until the stored state has been read, because it would overwrite that. One save
// runs at a time; changes of all users until it completes go into the next one.
void Meter::save(std::function<void()> on_saved) {
  // While a disk hangs, further replies do not wait for it.
  if (!restored_ || save_waiters_.size() >= kMaxWaitingReplies) return on_saved();
  save_waiters_.push_back(std::move(on_saved));
  if (!saving_) save_next();
}

void Meter::save_next() {
  const auto notify_waiters = [all = std::exchange(save_waiters_, {})] {
    for (const auto& on_saved : all) on_saved();
  };
  saving_ = storage_.save(ledger_.take_transaction(),
                          lifetime_.guard([this, notify_waiters](const Result<void>& result) {
                            saving_ = false;
                            if (!result) ledger_.mark_all_changed();
                            if (!save_waiters_.empty()) save_next();
                            notify_waiters();
                          }));
  if (saving_) return;
  ledger_.mark_all_changed();
  notify_waiters();
}

void Meter::begin(WindowRequest request, OnWindow on_window) {
  reader_.read_fresh(kEnergyProbes,
                     lifetime_.guard([this, request = std::move(request),
                                      on_window = std::move(on_window)](const Snapshot& edge) {
                       const auto id = ledger_.begin(request, edge);
                       if (!id) return on_window(id.error());
                       reply_when_committed(*ledger_.result(*id, edge.taken), on_window);
                     }));
}

Result<const Window*> Meter::find(std::string_view id) const {
  auto window = ledger_.find(id);
  if (window || restored_) return window;
  return Error{Errc::unavailable, "earlier windows are unavailable until the state is read"};
}

void Meter::measure(std::string id, OnWindow on_window) {
  if (const auto window = find(id); !window) return on_window(window.error());
  reader_.read_fresh(kEnergyProbes,
                     lifetime_.guard([this, id = std::move(id),
                                      on_window = std::move(on_window)](const Snapshot& edge) {
                       ledger_.record(edge);
                       on_window(ledger_.result(id, edge.taken));
                     }));
}

void Meter::end(std::string id, OnWindow on_window) {
  reader_.read_fresh(kEnergyProbes,
                     lifetime_.guard([this, id = std::move(id),
                                      on_window = std::move(on_window)](const Snapshot& edge) {
                       ledger_.record(edge);
                       auto result = ledger_.end(id, edge.taken);
                       if (!result) return on_window(std::move(result).error());
                       reply_when_committed(*std::move(result), on_window);
                     }));
}

// Replies once the window's begin or end is on the disk, so that a client that goes on with the
// reply finds its window after a crash, or finds it gone.
void Meter::reply_when_committed(WindowResult result, OnWindow on_window) {
  struct Waiting {
    WindowResult result;
    OnWindow on_window;
    Subscription timeout;

    void tell() {
      timeout.reset();
      if (const OnWindow once = std::exchange(on_window, nullptr)) once(std::move(result));
    }
  };
  const auto waiting =
      std::make_shared<Waiting>(Waiting{std::move(result), std::move(on_window), Subscription()});
  waiting->timeout = loop_.call_after(kDiskTimeout, [waiting] { waiting->tell(); });
  save([waiting] { waiting->tell(); });
}

std::vector<std::string> Meter::notes() const {
  std::vector<std::string> notes = storage_.notes();
  if (!restored_) {
    notes.emplace_back(
        "until the state has been read, earlier counts are unknown and nothing is stored");
  }
  return notes;
}

}  // namespace gpuyard::energy
