#include "cli/top/screen_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cli/read/devices.h"
#include "cli/top/grid.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local.h"
#include "faces/protocol/routes.h"
#include "faces/recording/replay_backend.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr Duration kListsEvery = 5s;
constexpr Duration kMarksEvery = 30s;
constexpr Duration kTodayEvery = 60s;
constexpr std::int64_t kMostMarks = 1000;

template <class Route, class Part, class Params = protocol::NoParams>
void ask(const http::Endpoint& daemon, const Route& route, std::optional<Part>& part,
         const Params& parameters = {}) {
  if (auto answer = client::call(daemon, route, parameters)) part = *std::move(answer);
}

Mark mark_of(const protocol::Alert& alert) {
  const bool severe = alert.level >= AlertLevel::error;
  return {from_rfc3339(alert.fired).value_or(WallTime{}), alert.xid ? 'X' : (severe ? '!' : '*'),
          alert.gpu ? alert.gpu->uuid : "", alert.message};
}

// What fired at that moment.
protocol::Alerts alerts_at(const protocol::AlertHistory& history, WallTime at) {
  protocol::Alerts alerts;
  for (const protocol::Alert& alert : history.alerts) {
    const auto fired = from_rfc3339(alert.fired);
    const auto resolved = alert.resolved ? from_rfc3339(*alert.resolved) : std::nullopt;
    if (fired && *fired <= at && (!resolved || *resolved > at)) alerts.alerts.push_back(alert);
  }
  return alerts;
}

// "31.2kWh 7.80EUR today"
std::string today_text(const protocol::Usage& usage) {
  double kwh = 0;
  double cost = 0;
  bool known = false;
  bool all = true;
  std::string currency;
  const auto add = [&](const protocol::UsageRow& row) {
    known = known || row.energy_kwh.has_value();
    all = all && row.energy_unknown_gpu_hours == 0;
    kwh += row.energy_kwh.value_or(0);
    if (!row.estimate || !row.estimate->cost) return;
    cost += *row.estimate->cost;
    currency = row.estimate->currency.value_or("");
  };
  std::ranges::for_each(usage.rows, add);
  add(usage.unleased);
  if (!known) return "";
  const std::string money = currency.empty() ? "" : fmt::format(" {:.2f}{}", cost, currency);
  return fmt::format("{:.1f}{}kWh{} today", kwh, all ? "" : "+", money);  // at least that
}

protocol::UsageQuery usage_query(Duration since, usage::UsageGrouping by) {
  protocol::UsageQuery query;
  query.since_s = to_seconds(since);
  query.by = by;
  return query;
}

class SourceTeller final : public Teller {
 public:
  explicit SourceTeller(Source& source) : source_(source) {}

  const http::Endpoint* daemon() const override { return source_.daemon(); }
  Recent recent() override { return recent_before(std::nullopt); }

  Result<News> tell(const Wish& wish) override {
    auto news = wish.at ? past(*wish.at) : present(wish);
    if (!news || daemon() == nullptr) return news;
    // What happened while the past was looked at.
    if (std::exchange(in_past_, wish.at.has_value()) && !wish.at) {
      news->before = recent_before(std::nullopt);
    }
    look_at_marks();
    news->marks = marks_;
    look_at_charts(wish);
    if (charts_) news->charts = *charts_;
    if (wish.at) {
      news->alerts = alerts_at(history_.value_or(protocol::AlertHistory{}), *wish.at);
      return news;
    }
    look_at_today();
    news->today = today_;
    look_at_lists(wish);
    news->leases = leases_;
    news->queue = queue_;
    news->alerts = alerts_;
    if (wish.pane == Pane::usage)
      ask(*daemon(), protocol::kUsage, news->usage,
          usage_query(24h * 7, usage::UsageGrouping::user));
    return news;
  }

 private:
  // Where the driver itself is read, what only one GPU's page shows is read for that alone.
  Result<News> present(const Wish& wish) {
    auto snapshot = source_.snapshot(wish.pane == Pane::gpu ? ProbeSet::all() : kTableProbes,
                                     Owners::looked_up);
    if (!snapshot) return std::move(snapshot).error();
    if (!snapshot->driver_initialised && snapshot->devices.empty()) return no_driver(*snapshot);
    News news{*std::move(snapshot)};
    news.heard = wall_now();
    return news;
  }

  Result<News> past(WallTime at) {
    if (daemon() == nullptr) {
      return Error{Errc::unavailable, "history needs a daemon, and none is running on this machine",
                   "", client::start_command()};
    }
    protocol::SnapshotQuery query;
    query.at = to_rfc3339(at);
    auto snapshot = client::call(*daemon(), protocol::kSnapshot, query);
    if (!snapshot) return std::move(snapshot).error();
    News news{*std::move(snapshot)};
    news.at = at;
    news.before = recent_before(at);
    news.heard = wall_now();
    return news;
  }

  Recent recent_before(std::optional<WallTime> at) {
    Recent recent;
    if (daemon() == nullptr) return recent;
    protocol::HistoryColumnsQuery query;
    query.metrics = "util";
    query.since = at ? to_rfc3339(*at - 2min) : "2m";
    if (at) query.until = to_rfc3339(*at);
    query.points = kRecent;
    const auto told = client::call(*daemon(), protocol::kHistoryColumns, query);
    if (!told) return recent;
    for (const protocol::HistoryColumn& column : told->series) {
      // Where only means of ten seconds are kept, each stands for its ten seconds.
      const auto times =
          static_cast<std::size_t>(std::clamp<std::int64_t>(column.step_ms / 1000, 1, 60));
      for (const auto& mean : column.mean) {
        recent[column.uuid].insert(recent[column.uuid].end(), times, mean ? *mean / 100 : kNoValue);
      }
    }
    return recent;
  }

  // They change seldom, unless somebody looks at them or has just changed them.
  void look_at_lists(const Wish& wish) {
    const bool shown = wish.pane == Pane::queue || wish.pane == Pane::alerts;
    const bool changed = std::exchange(changes_, wish.changes) != wish.changes;
    if (!shown && !changed && BootClock::now() < lists_due_) return;
    lists_due_ = BootClock::now() + kListsEvery;
    leases_.reset();  // what is not told now is not known
    queue_.reset();
    alerts_.reset();
    ask(*daemon(), protocol::kLeases, leases_);
    ask(*daemon(), protocol::kQueue, queue_);
    ask(*daemon(), protocol::kAlerts, alerts_);
  }

  void look_at_marks() {
    if (BootClock::now() < marks_due_) return;
    marks_due_ = BootClock::now() + kMarksEvery;
    protocol::AlertHistoryQuery query;
    query.limit = kMostMarks;
    ask(*daemon(), protocol::kAlertHistory, history_, query);
    if (!history_) return;
    marks_.clear();
    for (const protocol::Alert& alert : history_->alerts) marks_.push_back(mark_of(alert));
    std::ranges::sort(marks_, {}, &Mark::at);
  }

  // A chart is asked for anew when half of one of its steps has passed.
  void look_at_charts(const Wish& wish) {
    const bool same = wish.charts_of == charted_.charts_of && wish.span == charted_.span &&
                      wish.at == charted_.at;
    if (same && BootClock::now() < charts_due_) return;
    charted_ = wish;
    charts_.reset();
    if (wish.charts_of.empty()) return;
    constexpr std::uint64_t kPoints = 240;
    protocol::HistoryColumnsQuery query;
    query.metrics = "util,power";
    query.gpus = wish.charts_of;
    query.since = to_rfc3339(wish.at.value_or(wall_now()) - wish.span);
    if (wish.at) query.until = to_rfc3339(*wish.at);
    query.points = kPoints;
    ask(*daemon(), protocol::kHistoryColumns, charts_, query);
    charts_due_ = BootClock::now() + wish.span / (2 * kPoints);
  }

  void look_at_today() {
    if (BootClock::now() < today_due_) return;
    today_due_ = BootClock::now() + kTodayEvery;
    std::optional<protocol::Usage> usage;
    ask(*daemon(), protocol::kUsage, usage, usage_query(0s, usage::UsageGrouping::day));
    if (usage) today_ = today_text(*usage);
  }

  Source& source_;
  bool in_past_ = false;
  TimePoint lists_due_{};
  TimePoint marks_due_{};
  TimePoint today_due_{};
  TimePoint charts_due_{};
  std::size_t changes_ = 0;
  std::optional<protocol::Leases> leases_;
  std::optional<protocol::Queue> queue_;
  std::optional<protocol::Alerts> alerts_;
  Wish charted_;
  std::optional<protocol::HistoryColumns> charts_;
  std::optional<protocol::AlertHistory> history_;
  std::vector<Mark> marks_;
  std::string today_;
};

class RecordingTeller final : public Teller {
 public:
  RecordingTeller(recording::Player player, Duration from, double speed)
      : player_(std::move(player)),
        began_(from_rfc3339(player_.header().began_at).value_or(WallTime{})),
        from_(from),
        speed_(speed),
        started_(BootClock::now()) {}

  bool knows_past() const override { return true; }
  bool replays() const override { return true; }

  Result<News> tell(const Wish& wish) override {
    const Duration position =
        wish.at ? std::clamp<Duration>(*wish.at - began_, 0s, player_.length()) : playing();
    if (const auto moved = player_.move_to(position); !moved) return moved.error();
    const TimePoint now{};
    News news;
    for (const DeviceState& state : recording::states_of(player_, now)) {
      news.snapshot.devices.push_back(protocol::device_of(state, now));
    }
    news.snapshot.driver_initialised = true;
    news.snapshot.simulated = player_.header().simulated;
    news.at = began_ + std::chrono::duration_cast<std::chrono::milliseconds>(position);
    news.heard = *news.at;
    return news;
  }

 private:
  // In seconds: months at a high speed overflow a Duration.
  Duration playing() const {
    const double seconds = to_seconds(from_) + to_seconds(BootClock::now() - started_) * speed_;
    const double length = to_seconds(player_.length());
    return seconds >= length
               ? player_.length()
               : std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

  recording::Player player_;
  WallTime began_;
  Duration from_;
  double speed_;
  TimePoint started_;
};

}  // namespace

void note(Recent& recent, const protocol::Snapshot& snapshot) {
  std::set<std::string> there;
  for (const protocol::Device& device : snapshot.devices) {
    there.insert(device.uuid);
    const auto use = device.condition == DeviceCondition::responsive
                         ? device.readings.get(Metric::utilization_gpu)
                         : std::nullopt;
    std::deque<double>& values = recent[device.uuid];
    values.push_back(use ? static_cast<double>(*use) / 100 : kNoValue);
    if (values.size() > kRecent) values.pop_front();
  }
  std::erase_if(recent, [&](const auto& one) { return !there.contains(one.first); });
}

std::unique_ptr<Teller> teller_of(Source& source) {
  return std::make_unique<SourceTeller>(source);
}

Result<std::unique_ptr<Teller>> teller_of_recording(const std::string& file, Duration from,
                                                    double speed) {
  auto player = recording::Player::open(file);
  if (!player) return std::move(player).error();
  if (from > player->length()) {
    return Error{Errc::invalid, fmt::format("{} is {:.1f} s long; cannot start at {:.1f} s", file,
                                            to_seconds(player->length()), to_seconds(from))};
  }
  return std::unique_ptr<Teller>(
      std::make_unique<RecordingTeller>(*std::move(player), from, speed));
}

}  // namespace gpuyard::cli::top
