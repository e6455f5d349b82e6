#include "daemon/alert_adapter.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/clock.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/text.h"
#include "core/andon/alert.h"

namespace gpuyard::daemon {
namespace {

std::string own_name() {
  std::string name = host_name();
  return name.empty() ? "localhost" : name;
}

// Returns nothing if it cannot be told.
std::optional<double> free_percent(const std::string& directory) {
  struct statvfs disk{};
  if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  return 100.0 * static_cast<double>(disk.f_bavail) / static_cast<double>(disk.f_blocks);
}

std::size_t outsiders(const std::vector<lease::Seen>& seen) {
  return static_cast<std::size_t>(
      std::ranges::count(seen, lease::Seen::Verdict::outsider, &lease::Seen::verdict));
}

}  // namespace

AlertAdapter::AlertAdapter(Loop& loop, Worker& query, store::StateStore& state,
                           control::Control& control, const lease::Leases& leases,
                           std::string state_directory, AlertConfig file)
    : loop_(loop),
      query_(query),
      state_(state),
      leases_(leases),
      directory_(std::move(state_directory)),
      host_(own_name()),
      file_(std::move(file)),
      books_(state),
      board_(loop, books_, *this, file_.rules),
      outlets_(loop, notify::make_senders(loop, notify::worker_threads(loop)),
               {[this](const std::string&, const std::string& id) { on_over(id, std::nullopt); },
                [this](const std::string&, const std::string& id, const std::string& why) {
                  on_over(id, why);
                }}),
      tests_(loop, outlets_),
      caps_(loop, control, board_) {
  if (auto done = outlets_.replace(file_.sinks); !done) log::error("{}", done.error().text());
  for (const notify::SinkConfig& sink : file_.sinks) {
    if (!sink.trouble.empty()) log::error("{}; its alerts wait until this is fixed", sink.trouble);
  }
}

void AlertAdapter::start() {
  look_at_disk();
  watch_closed_sinks();
  board_.start();
}

Result<void> AlertAdapter::replace(AlertConfig file) {
  for (const notify::SinkConfig& sink : file.sinks) {
    const auto now = std::ranges::find(file_.sinks, sink.name, &notify::SinkConfig::name);
    const bool is_closed = now != file_.sinks.end() && !now->trouble.empty();
    if (!sink.trouble.empty() && !is_closed) return Error{Errc::invalid, sink.trouble};
  }
  for (notify::SinkConfig& sink : owing(file)) {
    if (file.sinks.size() < notify::kMostSinks) file.sinks.push_back(std::move(sink));
  }
  if (auto done = outlets_.replace(file.sinks); !done) return done;
  file_ = std::move(file);
  board_.replace(file_.rules);
  watch_closed_sinks();
  return {};
}

void AlertAdapter::watch_closed_sinks() {
  sinks_timer_.reset();
  std::set<std::string> closed;
  for (const notify::SinkConfig& sink : file_.sinks) {
    if (!sink.trouble.empty()) closed.insert(sink.name);
  }
  if (closed.empty()) return;
  sinks_timer_ = loop_.call_after(kSinkLook, [this, closed = std::move(closed)] {
    const bool asked = ask_worker(
        query_,
        [text = file_.text, file = file_.file, closed] {
          return notify::read_sinks(text, file, closed);
        },
        here_.guard(
            [this, text = file_.text](const Result<std::vector<notify::SinkConfig>>& sinks) {
              on_sinks_read(text, sinks);
            }));
    if (!asked) watch_closed_sinks();
  });
}

void AlertAdapter::on_sinks_read(const std::string& text,
                                 const Result<std::vector<notify::SinkConfig>>& sinks) {
  // A reload may have replaced them already.
  if (!sinks || text != file_.text) return watch_closed_sinks();
  bool changed = false;
  for (notify::SinkConfig& sink : file_.sinks) {
    if (sink.trouble.empty()) continue;
    const auto fresh = std::ranges::find(*sinks, sink.name, &notify::SinkConfig::name);
    if (fresh == sinks->end() || fresh->trouble == sink.trouble) continue;
    sink = *fresh;
    changed = true;
    if (sink.trouble.empty()) {
      log::info("Sink {} ({}) is open again", sink.name, sink.where());
    } else {
      log::error("{}", sink.trouble);
    }
  }
  if (changed) {
    if (auto done = outlets_.replace(file_.sinks); !done) log::error("{}", done.error().text());
  }
  watch_closed_sinks();
}

// The command of a dropped rule still runs once more, when its alert is over.
std::vector<notify::SinkConfig> AlertAdapter::owing(const AlertConfig& next) const {
  std::vector<notify::SinkConfig> some;
  for (const notify::SinkConfig& sink : file_.sinks) {
    const bool stays =
        std::ranges::find(next.sinks, sink.name, &notify::SinkConfig::name) != next.sinks.end();
    const auto& waiting = board_.outgoing();
    const bool owes = std::ranges::any_of(
                          waiting, [&](const auto& one) { return one.second.sink == sink.name; }) ||
                      std::ranges::any_of(board_.engine().firing(), [&](const andon::Alert& one) {
                        return std::ranges::find(one.heard_by, sink.name) != one.heard_by.end();
                      });
    if (is_sink_of_command(sink.name) && !stays && owes) some.push_back(sink);
  }
  return some;
}

void AlertAdapter::on_snapshot(const Snapshot& snapshot) {
  const TimePoint began = BootClock::now();
  andon::Facts facts = facts_.note(snapshot, lease_facts(snapshot), loop_.now());
  note_node(facts.node);
  board_.tick(facts);
  cost_.add(BootClock::now() - began);
  caps_.look(snapshot);
  tell_what_fires();
}

std::map<DeviceId, andon::LeaseFacts> AlertAdapter::lease_facts(const Snapshot& snapshot) const {
  std::map<DeviceId, andon::LeaseFacts> facts;
  // Where no GPU was ever leased, there are no squatters, only users.
  if (leases_.closed() || leases_.last_fence() == 0) return facts;
  const auto& outside = leases_.gpus().outside();
  for (const DeviceState& device : snapshot.devices) {
    const auto seen = outside.find(device.info.id);
    facts[device.info.id] = {leases_.leased(device.info.id),
                             seen != outside.end() ? outsiders(seen->second) : 0};
  }
  return facts;
}

void AlertAdapter::note_node(andon::Signals& node) {
  node[andon::Signal::journal_down] = state_.failing() || board_.trouble() ? 1 : 0;
  node[andon::Signal::disk_free] = disk_free_percent_;
  double longest = 0;
  std::map<std::string, TimePoint> failing;
  for (const notify::SinkFigures& one : outlets_.figures()) {
    // The sink's own log tells of refused messages.
    if (!one.closed && (!one.failing_since || one.queued == 0)) continue;
    const auto since = failing_.try_emplace(one.name, loop_.now()).first->second;
    failing.emplace(one.name, since);
    longest = std::max(longest, std::chrono::duration<double>(loop_.now() - since).count());
  }
  failing_ = std::move(failing);
  node[andon::Signal::sink_failing] = longest;
  if (access_.slurm_trouble != nullptr) {
    node[andon::Signal::slurm_trouble] = access_.slurm_trouble->empty() ? 0 : 1;
  }
  note_access(node);
}

void AlertAdapter::note_access(andon::Signals& node) const {
  const WallTime now = loop_.wall();
  const auto days_until = [now](WallTime end) {
    using Days = std::chrono::duration<double, std::chrono::days::period>;
    return std::max(std::ceil(Days(end - now).count()), 0.0);
  };
  const metrics::TlsMetrics* const tls = access_.tls;
  if (tls != nullptr) {
    if (tls->expires) {
      node[andon::Signal::certificate_days] =
          days_until(WallTime(std::chrono::seconds(*tls->expires)));
    }
    node[andon::Signal::certificate_refused] = tls->trouble.empty() ? 0 : 1;
  }
  if (access_.closed != nullptr) {
    node[andon::Signal::listeners_closed] = static_cast<double>(access_.closed->size());
  }
  constexpr Duration kLongLived = std::chrono::weeks(4);
  constexpr double kNoneEnds = 36'500;
  if (access_.tokens == nullptr) return;
  const auto end = access_.tokens->first_end(kLongLived);
  node[andon::Signal::token_days] = end ? days_until(*end) : kNoneEnds;
}

void AlertAdapter::look_at_disk() {
  disk_timer_ = loop_.call_after(kDiskLook, [this] { look_at_disk(); });
  ask_worker(
      query_, [directory = directory_] { return free_percent(directory); },
      here_.guard([this](std::optional<double> percent) { disk_free_percent_ = percent; }));
}

notify::Notice AlertAdapter::notice_of(const andon::Alert& alert, std::string id) const {
  notify::Notice notice;
  notice.id = std::move(id);
  notice.key = key_of(alert);
  notice.rule = alert.rule;
  const bool firing = alert.state == andon::State::firing;
  notice.status = firing ? notify::Status::firing : notify::Status::resolved;
  notice.severity = static_cast<unsigned>(worst_severity(alert));
  notice.level = notify::level_of(notice.severity);
  notice.message = alert.message;
  notice.advice = alert.advice;
  if (!alert.gpu.empty()) {
    const bool displaced = board_.engine().index_is_anothers(alert);
    notice.gpu = {displaced ? std::nullopt : alert.index, alert.gpu, alert.pci_address,
                  alert.gpu_name};
  }
  notice.host = host_;
  notice.started_at = alert.fired;
  if (alert.resolved) notice.ended_at = *alert.resolved;
  notice.simulated = alert.simulated;
  return notice;
}

std::vector<std::string> AlertAdapter::sinks_for(const andon::Alert& alert,
                                                 const andon::Rule& rule) {
  if (!rule.sinks.empty()) {
    const std::set<std::string> once(rule.sinks.begin(), rule.sinks.end());
    return {once.begin(), once.end()};
  }
  auto sinks = outlets_.names_for(notify::level_of(static_cast<unsigned>(alert.severity)));
  std::erase_if(sinks, is_sink_of_command);
  return sinks;
}

std::string AlertAdapter::command_of(const andon::Rule& rule) {
  return rule.command.empty() ? std::string() : sink_of_command(rule.name);
}

andon::Outgoing AlertAdapter::words_for(const andon::Alert& alert, const std::string& sink) {
  const std::string id = new_id();
  return {id, sink, json::to_json(notice_of(alert, id)), 0};
}

void AlertAdapter::send(const andon::Outgoing& words) {
  auto notice = json::from_json<notify::Notice>(words.body, json::UnknownFields::ignore);
  if (!notice) {
    log::error("a stored notification for sink {} cannot be read: {}", words.sink,
               notice.error().text());
    return loop_.post(here_.guard([this, id = words.id] { board_.delivered(id); }));
  }
  outlets_.send(words.sink, *std::move(notice));
}

// Called when a message is delivered; `why` says why it never will be.
void AlertAdapter::on_over(const std::string& id, std::optional<std::string> why) {
  if (!tests_.heard(id, std::move(why))) board_.delivered(id);
}

// Includes acknowledged and silenced alerts, if they were told: a receiver that is not told again
// thinks that the alert is over.
void AlertAdapter::tell_what_fires() {
  std::vector<notify::FiringNotification> firing;
  for (const andon::Alert& alert : board_.engine().firing()) {
    if (alert.told) firing.push_back({notice_of(alert, ""), alert.heard_by});
  }
  const bool any = !firing.empty();
  if (any || told_firing_) outlets_.still_firing(std::move(firing));
  told_firing_ = any;
}

std::vector<protocol::Sink> AlertAdapter::sinks() const {
  std::vector<protocol::Sink> all;
  for (const notify::SinkFigures& one : outlets_.figures()) {
    protocol::Sink sink;
    sink.name = one.name;
    sink.kind = enum_name(one.kind);
    sink.where = one.where;
    const auto config = std::ranges::find(file_.sinks, one.name, &notify::SinkConfig::name);
    if (config != file_.sinks.end()) sink.min_level = enum_name(config->min_level);
    sink.queued = static_cast<std::int64_t>(one.queued);
    sink.delivered_total = one.delivered_total;
    sink.retries_total = one.retries_total;
    sink.dead_letters_total = one.dead_letters_total;
    if (one.failing_since) sink.failing_since = to_rfc3339(*one.failing_since);
    sink.last_error = one.last_error;
    if (one.closed) sink.closed = true;
    all.push_back(std::move(sink));
  }
  return all;
}

void AlertAdapter::test(const std::string& sink, const std::string& by, Tested tested) {
  std::vector<std::string> sinks = outlets_.names();
  if (sink.empty()) std::erase_if(sinks, is_sink_of_command);  // a command would act, not tell
  if (!sink.empty()) {
    if (std::ranges::find(sinks, sink) == sinks.end()) {
      const std::string what = unknown_word("sink", sink, {sinks.begin(), sinks.end()});
      return loop_.post([what, tested = std::move(tested)] {
        tested(Error{Errc::not_found, what, "", "gpuyard alerts sinks"});
      });
    }
    sinks = {sink};
  }
  const auto notice = [&](std::string id) {
    notify::Notice test;
    test.id = std::move(id);
    test.key = "test/" + host_;
    test.rule = "test";
    test.severity = 0;
    test.level = notify::Level::info;
    test.message = "Test notification of gpuyard on " + host_ + ", requested by " + by;
    test.advice = "Nothing is wrong; no action is needed.";
    test.host = host_;
    test.started_at = loop_.wall();
    test.test = true;
    return test;
  };
  tests_.begin(sinks, notice, std::move(tested));
}

void SinkTests::begin(const std::vector<std::string>& sinks,
                      const std::function<notify::Notice(std::string id)>& notice,
                      api::AlertSinks::Tested tested) {
  if (tests_.size() == kMost) {
    return loop_.post([tested = std::move(tested)] {
      tested(Error{Errc::busy, "too many sink tests are in progress; try again in a moment"});
    });
  }
  const std::uint64_t number = next_++;
  Test& test = tests_[number];
  test.began = loop_.now();
  test.tested = std::move(tested);
  test.deadline = loop_.call_after(protocol::kSinkTestPatience, [this, number] { end(number); });
  for (const std::string& sink : sinks) {
    const std::string id = new_id();
    test.open.emplace(id, test.sinks.size());
    test.sinks.push_back({sink, false, 0, "not delivered yet; delivery will be retried"});
    outlets_.send(sink, notice(id));
  }
}

bool SinkTests::heard(const std::string& id, std::optional<std::string> why) {
  for (auto& [number, test] : tests_) {
    const auto found = test.open.find(id);
    if (found == test.open.end()) continue;
    protocol::SinkTest& sink = test.sinks[found->second];
    sink.delivered = !why;
    sink.why = std::move(why);
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began).count();
    test.open.erase(found);
    if (test.open.empty()) end(number);
    return true;
  }
  return false;
}

void SinkTests::end(std::uint64_t number) {
  Test test = std::move(tests_.extract(number).mapped());
  const auto figures = outlets_.figures();
  for (const auto& [id, place] : test.open) {
    protocol::SinkTest& sink = test.sinks[place];
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began).count();
    const auto one = std::ranges::find(figures, sink.sink, &notify::SinkFigures::name);
    if (one != figures.end() && one->last_error) sink.why = one->last_error;
  }
  test.tested(std::move(test.sinks));
}

}  // namespace gpuyard::daemon
