#include "core/energy/meter.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::energy {

Meter::Meter(Loop& loop, FreshReader& reads, EnergyStorage& archive, std::string boot_id)
    : loop_(loop), reader_(reads), storage_(archive), ledger_(std::move(boot_id)) {}

void Meter::start() {
  load();
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
}

void Meter::stop() {
  if (restored_) save_next();
}

void Meter::load() {
  if (loading_) return;
  loading_ = storage_.load(lifetime_.guard([this](Result<LedgerState> books) {
    loading_ = false;
    load_failed_ = !books;
    if (!books) return;  // the archive says what is wrong with it
    restored_ = true;
    ledger_.restore(*std::move(books), loop_.now(), loop_.wall());
    ledger_.mark_all_changed();
  }));
}

void Meter::tick() {
  timer_ = loop_.call_after(kSaveInterval, [this] { tick(); });
  for (const WindowResult& over : ledger_.end_overdue(loop_.now())) {
    ended_log_.write(log::Level::info, loop_.now(),
                     fmt::format("energy window {} \"{}\" of uid {} has ended", over.window.id,
                                 over.window.name, over.window.owner));
  }
  if (!restored_) return load();
  save([] {});
}

// Saves nothing until the stored books have been read, because it would overwrite them. One save
// runs at a time; changes of all users until it completes go into the next one.
void Meter::save(std::function<void()> saved) {
  // While a disk hangs, further answers do not wait for it.
  if (!restored_ || save_waiters_.size() >= kMaxWaitingReplies) return saved();
  save_waiters_.push_back(std::move(saved));
  if (!saving_) save_next();
}

void Meter::save_next() {
  const auto tell = [all = std::exchange(save_waiters_, {})] {
    for (const auto& saved : all) saved();
  };
  saving_ = storage_.save(ledger_.take_transaction(),
                          lifetime_.guard([this, tell](const Result<void>& done) {
                            saving_ = false;
                            if (!done) ledger_.mark_all_changed();
                            if (!save_waiters_.empty()) save_next();
                            tell();
                          }));
  if (saving_) return;
  ledger_.mark_all_changed();
  tell();
}

void Meter::begin(WindowRequest wish, OnWindow answer) {
  reader_.read_fresh(kEnergyProbes,
                     lifetime_.guard([this, wish = std::move(wish),
                                      answer = std::move(answer)](const Snapshot& edge) {
                       const auto id = ledger_.begin(wish, edge);
                       if (!id) return answer(id.error());
                       reply_when_committed(*ledger_.result(*id, edge.taken), answer);
                     }));
}

Result<const Window*> Meter::find(std::string_view id) const {
  auto window = ledger_.find(id);
  if (window || restored_) return window;
  return Error{Errc::unavailable, "earlier windows are unavailable until the state is read"};
}

void Meter::measure(std::string id, OnWindow answer) {
  if (const auto there = find(id); !there) return answer(there.error());
  reader_.read_fresh(
      kEnergyProbes,
      lifetime_.guard([this, id = std::move(id), answer = std::move(answer)](const Snapshot& edge) {
        ledger_.record(edge);
        answer(ledger_.result(id, edge.taken));
      }));
}

void Meter::end(std::string id, OnWindow answer) {
  reader_.read_fresh(
      kEnergyProbes,
      lifetime_.guard([this, id = std::move(id), answer = std::move(answer)](const Snapshot& edge) {
        ledger_.record(edge);
        auto result = ledger_.end(id, edge.taken);
        if (!result) return answer(std::move(result).error());
        reply_when_committed(*std::move(result), answer);
      }));
}

// Answers once the window's begin or end is on the disk, so that a client that goes on with the
// answer finds its window after a crash, or finds it gone.
void Meter::reply_when_committed(WindowResult result, OnWindow answer) {
  struct Waiting {
    WindowResult result;
    OnWindow answer;
    Subscription patience;

    void tell() {
      patience.reset();
      if (const OnWindow once = std::exchange(answer, nullptr)) once(std::move(result));
    }
  };
  const auto waiting =
      std::make_shared<Waiting>(Waiting{std::move(result), std::move(answer), Subscription()});
  waiting->patience = loop_.call_after(kDiskTimeout, [waiting] { waiting->tell(); });
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
