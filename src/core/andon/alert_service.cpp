#include "core/andon/alert_service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/andon/alert.h"

namespace gpuyard::andon {
namespace {

// For an alert or a silence that is not in memory but may be on the disk.
Error not_read() {
  return {Errc::unavailable, "the stored alerts have not been read yet; try again"};
}

// Whether the alert's level is worse than the one that was told last.
bool is_news(const Alert& alert) {
  return !alert.told || level_of(alert.severity) > level_of(*alert.told);
}

Error no_room() {
  return {Errc::busy, "your share of the disk queue is full; try again in a second"};
}

}  // namespace

Board::Board(Loop& loop, AlertStorage& archive, Messenger& messenger, Rules rules)
    : loop_(loop), archive_(archive), messenger_(messenger), engine_(std::move(rules)) {}

void Board::replace(Rules rules) {
  const auto changes = engine_.replace(std::move(rules), loop_.wall());
  if (!open_) return;
  tell_new_sinks();
  take(changes);
  quarantine_anew();
}

// Tells alerts that fire already to the sinks that a rule has gained.
void Board::tell_new_sinks() {
  for (const Alert& alert : engine_.firing()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->notify || alert.acknowledged || !alert.told) continue;
    auto sinks = messenger_.sinks_for(alert, *rule);
    std::erase_if(sinks, [&](const std::string& sink) {
      return std::ranges::find(alert.heard_by, sink) != alert.heard_by.end();
    });
    if (sinks.empty() || silences_.covers(alert)) continue;
    engine_.note_told(alert.number, alert.severity, sinks);
    tell(alert, sinks);
    keep(*engine_.find(alert.number));
  }
}

void Board::tick(const Facts& facts) {
  if (!open_) return;
  for (const std::string& id : silences_.expire(loop_.now())) entry_.unsilenced.push_back(id);
  take(engine_.tick(facts, loop_.now(), loop_.wall()));
}

// All that a tick keeps and tells is one entry: after a crash either both are there, or neither is
// and the rule fires again.
void Board::take(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const Alert& alert = change.alert;
    if (change.kind == Change::Kind::resolved) {
      // Sinks that heard that it began hear that it is over, even if it is silenced.
      tell(alert, alert.heard_by);
      keep(alert);
      continue;
    }
    if (change.kind == Change::Kind::fired) run_command(alert);
    if (const Alert* now = engine_.find(alert.number)) keep(*now);
  }
  tell_of_firing();
  if (!changes.empty()) quarantine_anew();
  for (const Change& change : changes) {
    const Alert* const now = engine_.find(change.alert.number);
    told_(now != nullptr ? *now : change.alert);
  }
  if (!entry_.empty()) flush();
}

// The command runs once, however many sinks are told.
void Board::run_command(const Alert& alert) {
  const Rule* const rule = find_rule(engine_.rules(), alert.rule);
  const std::string sink = rule != nullptr ? messenger_.command_of(*rule) : "";
  if (sink.empty()) return;
  engine_.note_told(alert.number, std::nullopt, {sink});
  tell(alert, {sink});
}

void Board::tell_of_firing() {
  for (const Alert& alert : engine_.firing()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->notify || alert.acknowledged || !is_news(alert)) continue;
    if (silences_.covers(alert)) continue;
    const auto sinks = messenger_.sinks_for(alert, *rule);
    engine_.note_told(alert.number, alert.severity, sinks);
    tell(alert, sinks);
    if (const Alert* now = engine_.find(alert.number)) keep(*now);
  }
}

void Board::tell(const Alert& alert, const std::vector<std::string>& sinks) {
  for (const std::string& sink : sinks) {
    Outgoing words = messenger_.words_for(alert, sink);
    words.order = next_order_++;
    entry_.outgoing.push_back(std::move(words));
  }
}

void Board::quarantine_anew() {
  quarantined_.clear();
  for (const Alert& alert : engine_.firing()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->quarantine || alert.acknowledged || alert.gpu.empty()) continue;
    quarantined_.try_emplace(
        alert.gpu, Quarantine{alert.rule, alert.number,
                              fmt::format("quarantined by alert {} ({}): {}", alert.number,
                                          alert.rule, alert.message),
                              alert.message, alert.advice});
  }
}

std::optional<Quarantine> Board::quarantine(const DeviceId& gpu) const {
  const auto found = quarantined_.find(gpu);
  return found != quarantined_.end() ? std::optional(found->second) : std::nullopt;
}

void Board::acknowledge(std::uint64_t number, Acknowledgement by, const Answer& answer,
                        const Requester& requester) {
  if (engine_.find(number) == nullptr) {
    if (!loaded_) return loop_.post([answer] { answer(not_read()); });
    const bool was = number != 0 && number <= engine_.last_number();
    const Error error =
        was ? Error{Errc::conflict, fmt::format("alert {} is already resolved", number),
                    "there is nothing to acknowledge"}
            : Error{Errc::not_found, fmt::format("alert {} not found", number), "",
                    "gpuyard alerts"};
    return loop_.post([answer, error] { answer(error); });
  }
  if (!archive_.has_room(requester)) return loop_.post([answer] { answer(no_room()); });
  engine_.acknowledge(number, std::move(by));
  const Alert alert = *engine_.find(number);
  keep(alert);
  quarantine_anew();
  told_(alert);
  if (const Rule* const rule = find_rule(engine_.rules(), alert.rule)) acknowledged_(alert, *rule);
  flush([answer, alert](const Result<void>& kept) { kept ? answer(alert) : answer(kept.error()); },
        requester);
}

void Board::take_out(const DeviceId& gpu, const std::string& why) {
  take(engine_.take_out(gpu, why, loop_.wall()));
}

void Board::silence(Silence silence, const Silenced& answer, const Requester& requester) {
  const std::size_t most =
      SilenceTable::kMost - (requester.privileged ? 0 : SilenceTable::kKeptForAdmins);
  if (silences_.size() >= most) {
    const std::string text =
        most < SilenceTable::kMost
            ? fmt::format("the limit is {} silences, and {} for administrators", most,
                          SilenceTable::kMost)
            : fmt::format("the limit is {} silences", most);
    return loop_.post([answer, text] {
      answer(Error{.code = Errc::busy,
                   .message = text,
                   .hint = "gpuyard alerts silences  # to end those that are no longer needed"});
    });
  }
  if (!archive_.has_room(requester)) return loop_.post([answer] { answer(no_room()); });
  silences_.put(silence, loop_.now(), loop_.wall());
  entry_.silences.push_back(silence);
  flush([answer, silence = std::move(silence)](
            const Result<void>& kept) { kept ? answer(silence) : answer(kept.error()); },
        requester);
}

void Board::unsilence(const std::string& name, const Done& done, const Requester& requester) {
  if (!archive_.has_room(requester)) return loop_.post([done] { done(no_room()); });
  const auto id = silences_.named(name);
  if (!id) {
    if (!loaded_) return loop_.post([done] { done(not_read()); });
    return loop_.post([done, name] {
      done(Error{Errc::not_found, fmt::format("silence \"{}\" not found", name), "",
                 "gpuyard alerts silences"});
    });
  }
  silences_.remove(*id);
  entry_.unsilenced.push_back(*id);
  flush(done, requester);
}

// The board and its disk. What was kept is read, and changes are kept before they are told; but a
// disk that fails or does not answer delays no message for long.

void Board::start() {
  open_timer_ = loop_.call_after(kLoadPatience, [this] { open_without_what_was_kept(); });
  load();
}

void Board::load() {
  const bool asked =
      archive_.load(here_.guard([this](Result<andon::Kept> kept) { on_loaded(std::move(kept)); }));
  if (!asked) load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
}

void Board::on_loaded(Result<andon::Kept> kept) {
  if (!kept) {
    trouble_ = kept.error();
    load_failed_ = true;
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

// An alert that fired meanwhile replaces the kept one of the same rule and GPU.
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
    alert.ending = "stored alerts could not be read, and it was detected again";
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
  if (!trouble_) trouble_ = Error{Errc::timed_out, "the disk does not respond"};
  log::error("continuing without the stored alerts: {}", trouble_->text());
  owes_everything_ = true;
  // Numbers that no earlier life can have given.
  const auto since_1970 = loop_.wall().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  engine_.restore({}, static_cast<std::uint64_t>(seconds), loop_.now());
  next_order_ = static_cast<std::uint64_t>(seconds);
  open();
}

// Called once more if the kept state is read later.
void Board::open() {
  open_ = true;
  // While the daemon was down, rules may have gone and sinks have come.
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

AlertTransaction Board::everything() const {
  AlertTransaction all;
  all.everything = true;
  all.alerts = engine_.firing();
  for (const auto& [number, alert] : over_) all.alerts.push_back(alert);
  all.silences = silences_.all();
  for (const auto& [id, one] : outgoing_) all.outgoing.push_back(one);
  return all;
}

// Messages go out once they are kept, so that a daemon that dies has said nothing that it does not
// remember. If the disk fails or does not answer, they go out without being kept.
void Board::flush(Kept kept, const Requester& requester) {
  const auto keeping = std::make_shared<Keeping>();
  keeping->entry = std::exchange(entry_, {});
  keeping->entry.requester = requester;
  keeping->words = keeping->entry.outgoing;
  keeping->kept = std::move(kept);
  std::erase_if(keeping->entry.outgoing, [this](const Outgoing& one) {
    return outgoing_.size() >= kMostOutgoing || !outgoing_.emplace(one.id, one).second;
  });
  // Later entries build on all earlier ones; after a failure everything goes in one entry.
  if (loaded_ && std::exchange(owes_everything_, false)) {
    keeping->entry = everything();
    keeping->entry.requester = requester;
  }
  save(keeping);
}

void Board::save(const KeepingPtr& keeping) {
  const std::uint64_t number = next_keeping_++;
  const auto done = here_.guard([this, keeping, number](const Result<void>& saved) {
    patience_.erase(number);
    on_kept(keeping, saved);
  });
  if (!loaded_ || !archive_.save(keeping->entry, done)) {
    const char* const why = loaded_ ? "the disk queue is full" : "the disk could not be read yet";
    return loop_.post([done, why] { done(Error{Errc::busy, why}); });
  }
  patience_[number] = loop_.call_after(kSavePatience, [this, keeping] {
    fail({Errc::timed_out, "the disk does not respond"});
    say(*keeping);
  });
}

void Board::say(Keeping& keeping) {
  if (std::exchange(keeping.said, true)) return;
  for (const Outgoing& one : keeping.words) messenger_.send(one);
}

void Board::fail(const Error& why) {
  if (!trouble_) log::error("alerts cannot be stored on disk: {}", why.text());
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
  keeping->kept(Error{Errc::unavailable,
                      "active, but not stored, so it would be lost when the daemon restarts: " +
                          saved.error().text()});
}

const Alert* Board::find(std::uint64_t number) const {
  const auto over = over_.find(number);
  return over == over_.end() ? engine_.find(number) : &over->second;
}

}  // namespace gpuyard::andon
