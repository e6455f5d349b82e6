#include "cli/top/screen_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "cli/read/devices.h"
#include "cli/top/grid.h"
#include "cli/top/screen_data.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local_daemon.h"
#include "faces/protocol/routes.h"
#include "faces/recording/replay_backend.h"
#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr Duration kListPollInterval = 5s;
constexpr Duration kMarkPollInterval = 30s;
constexpr Duration kTodayPollInterval = 60s;
constexpr std::int64_t kMaxMarks = 1000;

template <class Route, class Part, class Params = protocol::NoParams>
void fetch_part(const http::Endpoint& daemon, const Route& route, std::optional<Part>& part,
                const Params& parameters = {}) {
  if (auto reply = client::call(daemon, route, parameters)) part = *std::move(reply);
}

TimelineMark mark_of(const protocol::Alert& alert) {
  const bool severe = alert.level >= AlertLevel::error;
  return {alert.fired, alert.xid ? 'X' : (severe ? '!' : '*'),
          alert.device ? alert.device->uuid : "", alert.message};
}

// The alerts that fired at that moment.
protocol::Alerts alerts_at(const protocol::AlertHistory& history, WallTime at) {
  protocol::Alerts alerts;
  for (const protocol::Alert& alert : history.alerts) {
    if (alert.fired <= at && (!alert.resolved || *alert.resolved > at))
      alerts.alerts.push_back(alert);
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

class LiveScreenSource final : public ScreenSource {
 public:
  explicit LiveScreenSource(Source& source) : source_(source) {}

  const http::Endpoint* daemon() const override { return source_.daemon(); }
  UtilizationHistory recent_utilization() override { return utilization_before(std::nullopt); }

  Result<ScreenData> fetch(const ScreenQuery& screen_query) override {
    auto data = screen_query.at ? fetch_past(*screen_query.at) : fetch_present(screen_query);
    if (!data || daemon() == nullptr) return data;
    // Back from the past: fills the gap.
    if (std::exchange(in_past_, screen_query.at.has_value()) && !screen_query.at) {
      data->past_utilization = utilization_before(std::nullopt);
    }
    poll_marks();
    data->marks = marks_;
    poll_charts(screen_query);
    if (charts_) data->charts = *charts_;
    if (screen_query.at) {
      data->alerts = alerts_at(history_.value_or(protocol::AlertHistory{}), *screen_query.at);
      return data;
    }
    poll_today();
    data->today = today_;
    poll_lists(screen_query);
    data->leases = leases_;
    data->queue = queue_;
    data->alerts = alerts_;
    if (screen_query.pane == Pane::usage)
      fetch_part(*daemon(), protocol::kUsage, data->usage,
                 usage_query(24h * 7, usage::UsageGrouping::user));
    return data;
  }

 private:
  // Everything is queried only if the page of one GPU shows it.
  static ProbeSet wanted_probes(const ScreenQuery& screen_query) {
    if (screen_query.pane == Pane::gpu) return ProbeSet::all();
    const ProbeSet shown = kTableProbes - ProbeSet{Probe::throttle_reasons, Probe::clocks};
    return screen_query.clocks ? shown | ProbeSet{Probe::clocks} : shown;
  }

  Result<ScreenData> fetch_present(const ScreenQuery& screen_query) {
    auto snapshot = source_.snapshot(wanted_probes(screen_query), OwnerLookup::looked_up);
    if (!snapshot) return std::move(snapshot).error();
    if (!snapshot->driver_initialised && snapshot->devices.empty())
      return no_driver_error(*snapshot);
    ScreenData data{*std::move(snapshot)};
    data.fetched_at = wall_now();
    return data;
  }

  Result<ScreenData> fetch_past(WallTime at) {
    if (daemon() == nullptr) {
      return Error{Errc::unavailable, "history needs a daemon, and none is running on this machine",
                   "", client::start_command()};
    }
    protocol::SnapshotQuery query;
    query.at = to_rfc3339(at);
    auto snapshot = GPUYARD_TRY(client::call(*daemon(), protocol::kSnapshot, query));
    ScreenData data{std::move(snapshot)};
    data.at = at;
    data.past_utilization = utilization_before(at);
    data.fetched_at = wall_now();
    return data;
  }

  UtilizationHistory utilization_before(std::optional<WallTime> at) {
    UtilizationHistory recent;
    if (daemon() == nullptr) return recent;
    protocol::HistoryColumnsQuery query;
    query.metrics = "util";
    query.since = at ? to_rfc3339(*at - 2min) : "2m";
    if (at) query.until = to_rfc3339(*at);
    query.points = kUtilizationSamples;
    const auto reply = client::call(*daemon(), protocol::kHistoryColumns, query);
    if (!reply) return recent;
    for (const protocol::HistoryColumn& column : reply->series) {
      // A mean of ten seconds stands for each of its ten seconds.
      const auto times =
          static_cast<std::size_t>(std::clamp<std::int64_t>(column.step_ms / 1000, 1, 60));
      for (const auto& mean : column.mean) {
        recent[column.uuid].insert(recent[column.uuid].end(), times, mean ? *mean / 100 : kNoValue);
      }
    }
    return recent;
  }

  // Polls the lists often only while they are shown, and after a change by the user.
  void poll_lists(const ScreenQuery& screen_query) {
    const bool shown = screen_query.pane == Pane::queue || screen_query.pane == Pane::alerts;
    const bool changed =
        std::exchange(change_count_, screen_query.change_count) != screen_query.change_count;
    if (!shown && !changed && BootClock::now() < lists_due_) return;
    lists_due_ = BootClock::now() + kListPollInterval;
    leases_.reset();  // a list that is not fetched now is not known
    queue_.reset();
    alerts_.reset();
    fetch_part(*daemon(), protocol::kLeases, leases_);
    fetch_part(*daemon(), protocol::kQueue, queue_);
    fetch_part(*daemon(), protocol::kAlerts, alerts_);
  }

  void poll_marks() {
    if (BootClock::now() < marks_due_) return;
    marks_due_ = BootClock::now() + kMarkPollInterval;
    protocol::AlertHistoryQuery query;
    query.limit = kMaxMarks;
    fetch_part(*daemon(), protocol::kAlertHistory, history_, query);
    if (!history_) return;
    marks_.clear();
    for (const protocol::Alert& alert : history_->alerts) marks_.push_back(mark_of(alert));
    std::ranges::sort(marks_, {}, &TimelineMark::at);
  }

  // A chart is fetched again when half of one of its steps has passed.
  void poll_charts(const ScreenQuery& screen_query) {
    const bool same = screen_query.charts_gpu == charts_query_.charts_gpu &&
                      screen_query.span == charts_query_.span &&
                      screen_query.at == charts_query_.at;
    if (same && BootClock::now() < charts_due_) return;
    charts_query_ = screen_query;
    charts_.reset();
    if (screen_query.charts_gpu.empty()) return;
    constexpr std::uint64_t kPoints = 240;
    protocol::HistoryColumnsQuery query;
    query.metrics = "util,power";
    query.gpus = screen_query.charts_gpu;
    query.since = to_rfc3339(screen_query.at.value_or(wall_now()) - screen_query.span);
    if (screen_query.at) query.until = to_rfc3339(*screen_query.at);
    query.points = kPoints;
    fetch_part(*daemon(), protocol::kHistoryColumns, charts_, query);
    charts_due_ = BootClock::now() + screen_query.span / (2 * kPoints);
  }

  void poll_today() {
    if (BootClock::now() < today_due_) return;
    today_due_ = BootClock::now() + kTodayPollInterval;
    std::optional<protocol::Usage> usage;
    fetch_part(*daemon(), protocol::kUsage, usage, usage_query(0s, usage::UsageGrouping::day));
    if (usage) today_ = today_text(*usage);
  }

  Source& source_;
  bool in_past_ = false;
  TimePoint lists_due_{};
  TimePoint marks_due_{};
  TimePoint today_due_{};
  TimePoint charts_due_{};
  std::size_t change_count_ = 0;
  std::optional<protocol::Leases> leases_;
  std::optional<protocol::Queue> queue_;
  std::optional<protocol::Alerts> alerts_;
  ScreenQuery charts_query_;
  std::optional<protocol::HistoryColumns> charts_;
  std::optional<protocol::AlertHistory> history_;
  std::vector<TimelineMark> marks_;
  std::string today_;
};

class RecordingScreenSource final : public ScreenSource {
 public:
  RecordingScreenSource(recording::Player player, Duration from, double speed)
      : player_(std::move(player)),
        began_(from_rfc3339(player_.header().began_at).value_or(WallTime{})),
        from_(from),
        speed_(speed),
        started_(BootClock::now()) {}

  bool has_history() const override { return true; }
  bool is_replay() const override { return true; }

  Result<ScreenData> fetch(const ScreenQuery& screen_query) override {
    const Duration position =
        screen_query.at ? std::clamp<Duration>(*screen_query.at - began_, 0s, player_.length())
                        : playing_time();
    GPUYARD_TRY(player_.seek(position));
    const TimePoint now{};
    ScreenData data;
    for (const DeviceState& state : recording::states_of(player_, now)) {
      data.snapshot.devices.push_back(protocol::device_of(state, now));
    }
    data.snapshot.driver_initialised = true;
    data.snapshot.simulated = player_.header().simulated;
    data.at = began_ + std::chrono::duration_cast<std::chrono::milliseconds>(position);
    data.fetched_at = *data.at;
    return data;
  }

 private:
  // In seconds: months at a high speed overflow a Duration.
  Duration playing_time() const {
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

std::unique_ptr<ScreenSource> make_screen_source(Source& source) {
  return std::make_unique<LiveScreenSource>(source);
}

Result<std::unique_ptr<ScreenSource>> make_recording_source(const std::string& file, Duration from,
                                                            double speed) {
  auto player = GPUYARD_TRY(recording::Player::open(file));
  if (from > player.length()) {
    return Error{Errc::invalid, fmt::format("{} is {:.1f} s long; cannot start at {:.1f} s", file,
                                            to_seconds(player.length()), to_seconds(from))};
  }
  return std::unique_ptr<ScreenSource>(
      std::make_unique<RecordingScreenSource>(std::move(player), from, speed));
}

}  // namespace gpuyard::cli::top
