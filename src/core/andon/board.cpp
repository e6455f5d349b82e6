#include "andon/board.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "andon/severity.h"

namespace gpuyard::andon {
namespace {

// Whether this is worse than what was told last, as far as levels go.
bool is_news(const Alert& alert) {
  return !alert.told || level_of(alert.severity) > level_of(*alert.told);
}

}  // namespace

Board::Board(Loop& loop, Archive& archive, Messenger& messenger, Rules rules)
    : loop_(loop), archive_(archive), messenger_(messenger), engine_(std::move(rules)) {}

void Board::replace(Rules rules) {
  const auto changes = engine_.replace(std::move(rules), loop_.wall());
  if (!open_) return;
  tell_new_sinks();
  take(changes);
  quarantine_anew();
}

// Who is to hear of a rule only now hears of what fires already.
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

// What is kept and what is told of one tick is one entry: after a crash either both are there, or
// neither is and the rule says it again.
void Board::take(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const Alert& alert = change.alert;
    if (change.kind == Change::Kind::resolved) {
      // Whoever heard that it began hears that it is over, silence or not.
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

// What is done about it is done once, whoever is told.
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
                                          alert.rule, alert.message)});
  }
}

std::optional<Quarantine> Board::quarantine(const DeviceId& gpu) const {
  const auto found = quarantined_.find(gpu);
  return found != quarantined_.end() ? std::optional(found->second) : std::nullopt;
}

void Board::acknowledge(std::uint64_t number, Acknowledgement by, const Answer& answer) {
  const auto refuse = [&](Errc code, std::string why) {
    loop_.post([answer, error = Error{code, std::move(why)}] { answer(error); });
  };
  if (engine_.find(number) == nullptr) {
    const bool was = number != 0 && number <= engine_.last_number();
    return refuse(was ? Errc::conflict : Errc::not_found,
                  was ? fmt::format("alert {} is over; there is nothing to acknowledge", number)
                      : fmt::format("there is no alert {}; `gpuyard alerts` lists them", number));
  }
  engine_.acknowledge(number, std::move(by));
  const Alert alert = *engine_.find(number);
  keep(alert);
  quarantine_anew();
  told_(alert);
  flush([answer, alert](const Result<void>& kept) { kept ? answer(alert) : answer(kept.error()); });
}

void Board::silence(Silence silence, const Silenced& answer) {
  if (silences_.size() >= SilenceBook::kMost) {
    return loop_.post([answer] {
      answer(Error{Errc::busy, fmt::format("there are {} silences already; end some of them",
                                           SilenceBook::kMost)});
    });
  }
  silences_.put(silence, loop_.now(), loop_.wall());
  entry_.silences.push_back(silence);
  flush([answer, silence = std::move(silence)](const Result<void>& kept) {
    kept ? answer(silence) : answer(kept.error());
  });
}

void Board::unsilence(const std::string& id, const Done& done) {
  if (!silences_.remove(id)) {
    return loop_.post([done, id] {
      done(Error{Errc::not_found, fmt::format("there is no silence \"{}\"", id)});
    });
  }
  entry_.unsilenced.push_back(id);
  flush(done);
}

}  // namespace gpuyard::andon
