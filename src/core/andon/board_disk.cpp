// The board and its disk: what was kept is read, what changes is kept before it is said, and a disk
// that fails or does not answer keeps nobody from hearing.
#include <algorithm>
#include <utility>

#include "andon/board.h"
#include "base/log.h"

namespace gpuyard::andon {

void Board::start() {
  open_timer_ = loop_.call_after(kLoadPatience, [this] { open_without_what_was_kept(); });
  load();
}

void Board::load() {
  const bool asked = archive_.load([weak = std::weak_ptr(self_)](Result<andon::Kept> kept) {
    if (const auto self = weak.lock()) (*self)->on_loaded(std::move(kept));
  });
  if (!asked) load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
}

void Board::on_loaded(Result<andon::Kept> kept) {
  if (!kept) {
    trouble_ = kept.error();
    load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
    return;
  }
  trouble_.reset();
  loaded_ = true;
  merge(*kept);
  open_timer_.reset();
  open();
  for (const Outgoing& one : kept->outgoing) messenger_.send(one);
  if (owes_everything_) flush();
}

// What fired meanwhile takes the place of what was kept of the same rule and GPU.
void Board::merge(const andon::Kept& kept) {
  std::vector<Alert> still;
  for (Alert alert : kept.firing) {
    const bool again = std::ranges::any_of(engine_.firing(), [&](const Alert& one) {
      return one.rule == alert.rule && one.gpu == alert.gpu;
    });
    if (!again) {
      still.push_back(std::move(alert));
      continue;
    }
    alert.state = State::resolved;
    alert.resolved = loop_.wall();
    alert.ending = "the disk could not be read, and it was found anew";
    keep(std::move(alert));
  }
  engine_.restore(still, kept.last_number, loop_.now());
  for (const Silence& silence : kept.silences) silences_.put(silence, loop_.now(), loop_.wall());
  for (const Outgoing& one : kept.outgoing) {
    outgoing_.emplace(one.id, one);
    next_order_ = std::max(next_order_, one.order + 1);
  }
}

void Board::open_without_what_was_kept() {
  if (open_) return;
  if (!trouble_) trouble_ = Error{Errc::timed_out, "the disk does not answer"};
  log::error("alerts go on without what was kept of them: {}", trouble_->message);
  owes_everything_ = true;
  // Numbers and places that no earlier life can have given.
  const auto since_1970 = loop_.wall().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  engine_.restore({}, static_cast<std::uint64_t>(seconds), loop_.now());
  next_order_ = static_cast<std::uint64_t>(seconds);
  open();
}

// And again, if what was kept is read only later.
void Board::open() {
  open_ = true;
  // Rules may have gone, and sinks have come, while nobody was here.
  tell_new_sinks();
  take(engine_.replace(engine_.rules(), loop_.wall()));
  quarantine_anew();
}

void Board::delivered(const std::string& outgoing) {
  if (outgoing_.erase(outgoing) == 0) return;
  entry_.delivered.push_back(outgoing);
  flush();
}

void Board::keep(Alert alert) {
  if (alert.state == State::resolved) {
    if (over_.size() == kMostOver) over_.erase(over_.begin());
    over_.insert_or_assign(alert.number, alert);
  }
  entry_.alerts.push_back(std::move(alert));
}

Entry Board::everything() const {
  Entry all;
  all.everything = true;
  all.alerts = engine_.firing();
  for (const auto& [number, alert] : over_) all.alerts.push_back(alert);
  all.silences = silences_.all();
  for (const auto& [id, one] : outgoing_) all.outgoing.push_back(one);
  return all;
}

// Words go out once they are kept, so that a daemon that dies before has not said what it does not
// remember. A disk that fails, or does not answer, keeps nobody from hearing: then they go out
// without it.
void Board::flush(Kept kept) {
  const auto keeping = std::make_shared<Keeping>();
  keeping->entry = std::exchange(entry_, {});
  keeping->words = keeping->entry.outgoing;
  keeping->kept = std::move(kept);
  std::erase_if(keeping->entry.outgoing, [this](const Outgoing& one) {
    return outgoing_.size() >= kMostOutgoing || !outgoing_.emplace(one.id, one).second;
  });
  // What is kept later stands on all that was asked for before: it goes in one piece.
  if (loaded_ && std::exchange(owes_everything_, false)) keeping->entry = everything();
  save(keeping);
}

void Board::save(const KeepingPtr& keeping) {
  const std::uint64_t number = next_keeping_++;
  const auto done = [weak = std::weak_ptr(self_), keeping, number](const Result<void>& saved) {
    const auto self = weak.lock();
    if (!self) return;
    (*self)->patience_.erase(number);
    (*self)->on_kept(keeping, saved);
  };
  if (!loaded_ || !archive_.save(keeping->entry, done)) {
    const char* const why = loaded_ ? "too much waits for the disk" : "the disk cannot be read yet";
    return loop_.post([done, why] { done(Error{Errc::busy, why}); });
  }
  patience_[number] = loop_.call_after(kSavePatience, [this, keeping] {
    fail({Errc::timed_out, "the disk does not answer"});
    say(*keeping);
  });
}

void Board::say(Keeping& keeping) {
  if (std::exchange(keeping.said, true)) return;
  for (const Outgoing& one : keeping.words) messenger_.send(one);
}

void Board::fail(const Error& why) {
  if (!trouble_) log::error("alerts are not kept on the disk: {}", why.message);
  trouble_ = why;
}

void Board::on_kept(const KeepingPtr& keeping, const Result<void>& saved) {
  if (saved) {
    trouble_.reset();
    for (const Alert& alert : keeping->entry.alerts) {
      if (alert.state == State::resolved) over_.erase(alert.number);
    }
  } else {
    fail(saved.error());
    owes_everything_ = true;
    save_timer_ = loop_.call_after(kSaveAgain, [this] { flush(); });
  }
  say(*keeping);
  if (!keeping->kept) return;
  if (saved) return keeping->kept(saved);
  keeping->kept(Error{Errc::unavailable, "it is in force, but would not survive the daemon: " +
                                             saved.error().message});
}

}  // namespace gpuyard::andon
