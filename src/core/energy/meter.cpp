#include "core/energy/meter.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::energy {

Meter::Meter(Loop& loop, FreshReads& reads, EnergyStorage& archive, std::string boot_id)
    : loop_(loop), reads_(reads), archive_(archive), ledger_(std::move(boot_id)) {}

void Meter::start() {
  load();
  timer_ = loop_.call_after(kSaveEvery, [this] { tick(); });
}

void Meter::stop() {
  if (adopted_) save_next();
}

void Meter::load() {
  if (loading_) return;
  loading_ = archive_.load(here_.guard([this](Result<Books> books) {
    loading_ = false;
    failed_ = !books;
    if (!books) return;  // the archive says what is wrong with it
    adopted_ = true;
    ledger_.adopt(*std::move(books), loop_.now(), loop_.wall());
    ledger_.keep_everything();
  }));
}

void Meter::tick() {
  timer_ = loop_.call_after(kSaveEvery, [this] { tick(); });
  for (const WindowResult& over : ledger_.end_overdue(loop_.now())) {
    over_.write(log::Level::info, loop_.now(),
                fmt::format("energy window {} \"{}\" of uid {} has ended", over.window.id,
                            over.window.name, over.window.owner));
  }
  if (!adopted_) return load();
  save([] {});
}

// Saves nothing until the stored books have been read, because it would overwrite them. One save
// runs at a time; changes of all users until it completes go into the next one.
void Meter::save(std::function<void()> saved) {
  // While a disk hangs, further answers do not wait for it.
  if (!adopted_ || waiting_.size() >= kMostWaiting) return saved();
  waiting_.push_back(std::move(saved));
  if (!saving_) save_next();
}

void Meter::save_next() {
  const auto tell = [all = std::exchange(waiting_, {})] {
    for (const auto& saved : all) saved();
  };
  saving_ =
      archive_.save(ledger_.take_changes(), here_.guard([this, tell](const Result<void>& done) {
        saving_ = false;
        if (!done) ledger_.keep_everything();
        if (!waiting_.empty()) save_next();
        tell();
      }));
  if (saving_) return;
  ledger_.keep_everything();
  tell();
}

void Meter::begin(WindowRequest wish, Answer answer) {
  reads_.fresh(kEnergyProbes, here_.guard([this, wish = std::move(wish),
                                           answer = std::move(answer)](const Snapshot& edge) {
    const auto id = ledger_.begin(wish, edge);
    if (!id) return answer(id.error());
    answer_when_kept(*ledger_.result(*id, edge.taken), answer);
  }));
}

Result<const Window*> Meter::find(std::string_view id) const {
  auto window = ledger_.find(id);
  if (window || adopted_) return window;
  return Error{Errc::unavailable, "earlier windows are unavailable until the state is read"};
}

void Meter::look(std::string id, Answer answer) {
  if (const auto there = find(id); !there) return answer(there.error());
  reads_.fresh(kEnergyProbes, here_.guard([this, id = std::move(id),
                                           answer = std::move(answer)](const Snapshot& edge) {
    ledger_.observe(edge);
    answer(ledger_.result(id, edge.taken));
  }));
}

void Meter::end(std::string id, Answer answer) {
  reads_.fresh(kEnergyProbes, here_.guard([this, id = std::move(id),
                                           answer = std::move(answer)](const Snapshot& edge) {
    ledger_.observe(edge);
    auto result = ledger_.end(id, edge.taken);
    if (!result) return answer(std::move(result).error());
    answer_when_kept(*std::move(result), answer);
  }));
}

// Answers once the window's begin or end is on the disk, so that a client that goes on with the
// answer finds its window after a crash, or finds it gone.
void Meter::answer_when_kept(WindowResult result, Answer answer) {
  struct Waiting {
    WindowResult result;
    Answer answer;
    Subscription patience;

    void tell() {
      patience.reset();
      if (const Answer once = std::exchange(answer, nullptr)) once(std::move(result));
    }
  };
  const auto waiting =
      std::make_shared<Waiting>(Waiting{std::move(result), std::move(answer), Subscription()});
  waiting->patience = loop_.call_after(kDiskPatience, [waiting] { waiting->tell(); });
  save([waiting] { waiting->tell(); });
}

std::vector<std::string> Meter::notes() const {
  std::vector<std::string> notes = archive_.notes();
  if (!adopted_) {
    notes.emplace_back(
        "until the state has been read, earlier counts are unknown and nothing is stored");
  }
  return notes;
}

}  // namespace gpuyard::energy
