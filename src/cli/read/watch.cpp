// gpuyard watch
#include <optional>

#include <fmt/format.h>

#include "base/try.h"
#include "cli/read/devices.h"
#include "cli/read/query.h"
#include "cli/read/query_csv.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "gpu/device/catalog.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard::cli {
namespace {

using ReadResult = Result<QueryInput>;

// "12:00:01" of "2026-01-31T12:00:01.250Z"
std::string_view time_of_day(std::string_view rfc3339) {
  constexpr std::size_t kStart = 11;
  constexpr std::size_t kLength = 8;
  return rfc3339.size() > kStart ? rfc3339.substr(kStart, kLength) : rfc3339;
}

std::string display_line(const protocol::Device& device) {
  const auto as_double = [&](Metric metric) -> std::optional<double> {
    const auto* number = device.readings.number(metric);
    return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
  };
  GpuMetrics metrics;
  metrics.device_id = device.index;
  metrics.temperature_celsius = as_double(Metric::temperature_core);
  metrics.utilization_percent = as_double(Metric::utilization_gpu);
  metrics.memory_used_bytes = protocol::number_of(device.readings, Metric::memory_used);
  metrics.memory_total_bytes = protocol::number_of(device.readings, Metric::memory_total);
  return metrics.display_line();
}

// Shows one answer after the other.
class WatchView {
 public:
  WatchView(const WatchVerb& verb, const Source& source, std::vector<Field> fields)
      : verb_(verb), source_(source), fields_(std::move(fields)) {}
  virtual ~WatchView() = default;
  virtual void show(const ReadResult&) = 0;
  virtual void on_resized() {}
  virtual void suspend() { suspend_self(); }

 protected:
  const WatchVerb& verb_;
  const Source& source_;
  std::vector<Field> fields_;
};

// Says on stderr, once each, that the daemon or driver is away or back.
class ErrorReporter {
 public:
  void report(const Source& source, const ReadResult& answer) {
    const bool failed = !answer;
    if (failed && !failing_) {
      const Error& error = answer.error();
      print_error({Errc::unavailable, error.message + "; retrying", error.cause, error.hint});
    } else if (!failed && failing_) {
      print_error({Errc::unavailable, source.name() + " is reachable again"});
    }
    failing_ = failed;
  }

 private:
  bool failing_ = false;
};

// Appends lines: for a file, a pipe or a log.
class LineView final : public WatchView {
 public:
  using WatchView::WatchView;

  void show(const ReadResult& answer) override {
    error_reporter_.report(source_, answer);
    if (!answer) return;
    if (verb_.json) {
      print(fields_.empty() ? json_line(answer->snapshot)
                            : json_line(query_answer(fields_, *answer)));
    } else if (!fields_.empty()) {
      print(query_csv(fields_, *answer, {.header = !std::exchange(header_printed_, true)}));
    } else {
      for (const auto& device : answer->snapshot.devices) {
        print(formatted("{} {}\n", answer->snapshot.taken_at, display_line(device)));
      }
    }
  }

 private:
  ErrorReporter error_reporter_;
  bool header_printed_ = false;
};

// Redraws in place, on a terminal.
class TerminalView final : public WatchView {
 public:
  using WatchView::WatchView;

  void show(const ReadResult& answer) override {
    if (answer) last_ = *answer;
    failure_ = answer ? "" : answer.error().text();
    draw();
  }
  void on_resized() override { draw(); }
  void suspend() override {
    LiveScreen::suspend();
    draw();
  }

 private:
  Printable status(const Screen& screen) const {
    const std::string ends =
        fmt::format("{}  every {}  Ctrl-C quits", source_.name(), verb_.interval);
    const std::string time(last_ ? time_of_day(last_->snapshot.taken_at) : "");
    const std::string line =
        truncate_text(time + (time.empty() ? "" : " UTC  ") + ends, screen.columns, screen.utf8);
    Printable out = painted(screen, Tone::faint, line) + "\n";
    if (!failure_.empty()) {
      const std::string text = failure_ + "; retrying" + (last_ ? ". Last readings:" : "");
      out += paragraph(screen, Tone::bad, text);
    }
    return out;
  }

  void draw() {
    const Screen screen = Screen::of_stdout(verb_.color);
    Printable text = status(screen) + "\n";
    if (last_ && fields_.empty()) text += device_table(last_->snapshot, screen);
    if (last_ && !fields_.empty()) text += field_table(fields_, *last_, screen);
    LiveScreen::draw(text, screen.rows);
  }

  std::optional<QueryInput> last_;
  std::string failure_;
  LiveScreen live_;
};

ReadResult read_fields(Source& source, const WatchVerb& verb, ProbeSet wanted) {
  const bool all = wanted == ProbeSet::all();
  using enum OwnerLookup;
  auto snapshot = source.snapshot(wanted, all ? looked_up : not_needed);
  if (!snapshot) return std::move(snapshot).error();
  if (!snapshot->driver_initialised) return no_driver_error(*snapshot);
  QueryInput queried{*std::move(snapshot)};
  if (verb.gpus.empty()) return queried;
  GPUYARD_TRY(keep_only(queried.snapshot, verb.gpus, source_words(verb.source)));
  return queried;
}

std::unique_ptr<WatchView> view_of(const WatchVerb& verb, const Source& source,
                                   std::vector<Field> fields) {
  const bool in_place = !verb.json && Screen::of_stdout().terminal;
  if (in_place) return std::make_unique<TerminalView>(verb, source, std::move(fields));
  return std::make_unique<LineView>(verb, source, std::move(fields));
}

}  // namespace

Options add_watch(Options program, WatchVerb& verb) {
  const Options watch = program.verb("watch", "Show GPU readings at an interval");
  add_source(watch, verb.source);
  watch.option("fields", verb.fields, "Fields to show; list all with `gpuyard query --list`")
      .metavar("FIELD");
  watch.option("--interval", verb.interval, "Time between samples, e.g. 500ms, 2s or 1m")
      .metavar("DURATION")
      .default_is("1s");
  watch.option("--count", verb.count, "Stop after N samples")
      .metavar("N")
      .positive()
      .default_is("until Ctrl-C");
  add_gpus_option(watch, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses")
      .default_is("all");
  watch.flag("--json", verb.json, "Print one JSON object per sample");
  add_color(watch, verb.color);
  watch.example("gpuyard watch")
      .example("gpuyard watch name power.draw --interval 500ms")
      .example("gpuyard watch --gpu 0,1 --count 10 --json");
  return watch;
}

int run(const WatchVerb& verb) {
  const auto interval = parse_interval(verb.interval);
  if (!interval) return print_error(Error(interval.error()).in("--interval"));
  auto fields = parse_fields(verb.fields);
  if (!fields) return print_error(fields.error());
  ProbeSet wanted = verb.json && fields->empty() ? ProbeSet::all() : kTableProbes;
  if (!fields->empty()) wanted = probes_of_fields(*fields);
  SignalWaiter signals;  // before the driver's threads
  auto open = open_source(verb.source, verb.count > 0 ? SimulatedLoad::load : SimulatedLoad::demo);
  if (!open) return print_source_error(open.error());
  ReadResult answer = read_fields(*open->source, verb, wanted);
  if (!answer) return print_source_error(answer.error());  // a first failure is no interruption
  const auto view = view_of(verb, *open->source, *std::move(fields));
  TimePoint next = BootClock::now();
  for (std::uint64_t shown = 0;;) {
    view->show(answer);
    if (++shown == verb.count) return 0;
    // Keeps the rhythm. Polls that were missed while nothing answered are not made up for.
    next = std::max(next + *interval, BootClock::now());
    const auto on_resize = [&] { view->on_resized(); };
    const auto on_suspend = [&] { view->suspend(); };
    if (!wait_for_tick(signals, next, on_resize, on_suspend)) return 0;
    answer = read_fields(*open->source, verb, wanted);
  }
}

}  // namespace gpuyard::cli
