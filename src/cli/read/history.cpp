// gpuyard history: readings of the past, which only the daemon keeps.
#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/read/history_plot.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using protocol::History;

// Returns the GPUs that the user named, or all.
Result<std::vector<std::string>> gpus_of(const HistoryVerb& verb, const http::Endpoint& daemon) {
  if (!verb.gpus.empty()) return split(verb.gpus, ',');
  const auto snapshot = client::call(daemon, protocol::kSnapshot);
  if (!snapshot) return snapshot.error();
  std::vector<std::string> gpus;
  for (const protocol::Device& device : snapshot->devices) {
    if (!device.uuid.empty()) gpus.push_back(device.uuid);
  }
  if (!gpus.empty()) return gpus;
  if (!snapshot->driver_initialised) return no_driver_error(*snapshot);
  return Error{Errc::unavailable, "the driver is loaded but reports no GPUs"};
}

// Limits the points to what the screen can show, unless another program reads them.
std::optional<std::uint64_t> points_of(const HistoryVerb& verb, const Screen& screen) {
  if (!verb.step.empty() || verb.json || verb.csv) return std::nullopt;
  constexpr std::uint64_t kDotsAcross = 2;
  constexpr std::size_t kDefaultColumns = 80;
  if (verb.plot) return kDotsAcross * (screen.columns > 0 ? screen.columns : kDefaultColumns);
  return 4 * kSparkColumns;
}

Result<std::vector<History>> fetch_history(const HistoryVerb& verb, const http::Endpoint& daemon,
                                           const std::vector<std::string>& gpus,
                                           const std::string& metric, const Screen& screen) {
  std::vector<History> all;
  for (const std::string& gpu : gpus) {
    const protocol::HistoryQuery query{gpu,
                                       metric,
                                       non_empty(verb.element),
                                       non_empty(verb.since),
                                       non_empty(verb.until),
                                       non_empty(verb.step),
                                       points_of(verb, screen),
                                       {}};
    auto answer = GPUYARD_TRY(client::call(daemon, protocol::kHistory, query));
    all.push_back(std::move(answer));
  }
  return all;
}

PlotCharset charset_of(HistoryVerb::Charset charset, const Screen& screen) {
  if (charset == HistoryVerb::Charset::braille) return PlotCharset::braille;
  if (charset == HistoryVerb::Charset::block) return PlotCharset::block;
  const bool automatic = charset == HistoryVerb::Charset::automatic;
  return automatic && screen.utf8 ? PlotCharset::braille : PlotCharset::ascii;
}

// The plots share the screen's height.
PlotSize plot_size(const Screen& screen, std::size_t plots) {
  constexpr std::size_t kMinRows = 6;
  constexpr std::size_t kMaxRows = 16;
  constexpr std::size_t kExtraRows = 4;  // heading, axis, times, a blank
  PlotSize size;
  if (screen.columns > 0) size.columns = screen.columns;
  if (screen.rows == 0) return size;
  const std::size_t each = screen.rows / std::max<std::size_t>(plots, 1);
  size.rows = std::clamp(each > kExtraRows ? each - kExtraRows : 0, kMinRows, kMaxRows);
  return size;
}

Printable text_of(const HistoryVerb& verb, const std::vector<std::vector<History>>& all,
                  const Screen& screen) {
  const PlotCharset charset = charset_of(verb.charset, screen);
  Printable out;
  for (const auto& of_metric : all) {
    if (!out.empty()) out += "\n";
    if (!verb.plot) {
      out += history_table(of_metric, screen, charset == PlotCharset::ascii);
      continue;
    }
    const TimeSpan span = span_of(of_metric);
    for (const History& one : of_metric) {
      if (one.points.empty()) continue;
      out += history_plot(one, span, plot_size(screen, all.size() * of_metric.size()), charset,
                          screen, verb.zoom ? PlotRange::zoomed : PlotRange::whole);
    }
  }
  return out;
}

Printable csv_text(const std::vector<std::vector<History>>& all) {
  Printable out = Printable::lines(protocol::kHistoryCsvHeader);
  for (History one : all | std::views::join) {
    // Each is one cell of a line.
    for (std::string* const word : {&one.uuid, &one.metric}) *word = printable(*word);
    if (one.element) one.element = printable(*one.element);
    out += Printable::lines(csv_of(one));
  }
  return out;
}

Printable json_text(std::vector<std::vector<History>> all) {
  HistoryAnswer answer;
  for (History& one : all | std::views::join) answer.series.push_back(std::move(one));
  return json_line(answer);
}

// Cuts the fractions of seconds off times: the same note of two GPUs may differ in them.
std::string to_the_second(std::string text) {
  const auto digit = [&](std::size_t at) { return at < text.size() && is_digit(text[at]); };
  for (auto at = text.find('.'); at != text.npos; at = text.find('.', at + 1)) {
    std::size_t end = at + 1;
    while (digit(end)) ++end;
    if (digit(at - 1) && end < text.size() && text[end] == 'Z') text.erase(at, end - at);
  }
  return text;
}

// Says notes on stderr, each once.
void print_notes(const std::vector<std::vector<History>>& all) {
  std::set<std::string> printed;
  bool simulated = false;
  for (const History& one : all | std::views::join) {
    simulated = simulated || one.simulated;
    for (const std::string& note : one.notes) {
      const std::string text = to_the_second(note);
      if (printed.insert(text).second) print_note("note: " + text);
    }
  }
  if (simulated) print_note("note: these GPUs are simulated");
}

}  // namespace

Options add_history(Options program, HistoryVerb& verb) {
  using enum HistoryVerb::Charset;
  const Options history = program.verb("history", "Show the history of a metric");
  add_gpus(history, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses")
      .default_is("all");
  add_socket(history, verb.socket);
  history
      .option("--metric", verb.metrics, "Metrics: power, temperature, util, clock or any JSON key")
      .metavar("NAME,...")
      .default_is("power");
  history
      .option("--element", verb.element,
              "Element of the metric: a fan, a link or an error location")
      .metavar("NAME");
  const Options time = history.heading("Time");
  time.option("--since", verb.since, "Start: 2h (ago), 02:10 or 2026-01-31 12:00")
      .metavar("TIME")
      .default_is("1h")
      .moment();
  time.option("--until", verb.until, "End, in the same format")
      .metavar("TIME")
      .default_is("now")
      .moment();
  time.option("--step", verb.step, "Time span of each point, e.g. 10s or 5m").metavar("DURATION");
  const Option json = add_json(history, verb.json);
  const Options output = history.heading("Output");
  const Option csv = output.flag("--csv", verb.csv, "Print CSV").excludes(json);
  const Option plot = output.flag("--plot", verb.plot, "Draw a plot").excludes(json).excludes(csv);
  output.flag("--zoom", verb.zoom, "Scale the plot to the values, not from 0 to the upper bound")
      .needs(plot);
  output
      .option("--charset", verb.charset,
              {{"auto", automatic}, {"braille", braille}, {"block", block}, {"ascii", ascii}},
              "Plot characters: auto, braille, block or ascii")
      .metavar("NAME")
      .default_is("auto");
  add_color(history, verb.color);
  history.example("gpuyard history 0 --plot")
      .example("gpuyard history --metric power,temperature --since 2h --plot")
      .example("gpuyard history 0 --metric util --since 7d --step 1h --csv");
  return history;
}

int run(const HistoryVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "history needs");
  if (!daemon) return print_source_error(daemon.error());
  const auto gpus = gpus_of(verb, *daemon);
  if (!gpus) return print_source_error(gpus.error());
  const Screen screen = Screen::of_stdout(verb.color);
  std::vector<std::vector<History>> all;
  for (const std::string& metric : split_all(verb.metrics)) {
    auto replies = fetch_history(verb, *daemon, *gpus, metric, screen);
    if (!replies) return print_source_error(replies.error());
    all.push_back(*std::move(replies));
  }
  if (!verb.json) print_notes(all);
  if (verb.json) {
    print(json_text(std::move(all)));
  } else {
    const Printable text = verb.csv ? csv_text(all) : text_of(verb, all, screen);
    print(text.empty() ? Printable("No data for this period.\n") : text);
  }
  return 0;
}

}  // namespace gpuyard::cli
