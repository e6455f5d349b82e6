#include "energy/meter.h"

#include <utility>

#include "base/log.h"

namespace gpuyard::energy {

Meter::Meter(Loop& loop, FreshReads& reads, EnergyArchive& archive, std::string boot_id)
    : loop_(loop), reads_(reads), archive_(archive), ledger_(std::move(boot_id)) {}

void Meter::start() {
  load();
  timer_ = loop_.call_after(kSaveEvery, [this] { tick(); });
}

void Meter::stop() {
  save([] {});
}

void Meter::load() {
  if (loading_) return;
  loading_ = archive_.load(here_.guard([this](Result<Books> books) {
    loading_ = false;
    if (!books) return;  // the archive says what is wrong with it
    adopted_ = true;
    ledger_.adopt(*std::move(books), loop_.now(), loop_.wall());
    ledger_.keep_everything();
  }));
}

void Meter::tick() {
  timer_ = loop_.call_after(kSaveEvery, [this] { tick(); });
  for (const WindowResult& over : ledger_.end_overdue(loop_.now())) {
    log::info("energy window {} \"{}\" of uid {} is over", over.window.id, over.window.name,
              over.window.owner);
  }
  if (!adopted_) return load();
  save([] {});
}

// Saves nothing before the kept books were read, so that they are not written over.
void Meter::save(const std::function<void()>& saved) {
  if (!adopted_) return saved();
  const bool posted =
      archive_.save(ledger_.take_changes(), here_.guard([this, saved](const Result<void>& done) {
        if (!done) ledger_.keep_everything();
        saved();
      }));
  if (posted) return;
  ledger_.keep_everything();
  saved();
}

void Meter::begin(WindowWish wish, Answer answer) {
  reads_.fresh(kEnergyProbes, here_.guard([this, wish = std::move(wish),
                                           answer = std::move(answer)](const Snapshot& edge) {
    const auto id = ledger_.begin(wish, edge);
    if (!id) return answer(id.error());
    answer_when_kept(*ledger_.result(*id, edge.taken), answer);
  }));
}

void Meter::look(std::string id, Answer answer) {
  if (const auto there = ledger_.find(id); !there) return answer(there.error());
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
        "what was counted before this daemon started is not known, and nothing is kept, until "
        "the state is read");
  }
  return notes;
}

}  // namespace gpuyard::energy
