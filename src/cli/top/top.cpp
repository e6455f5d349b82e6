// gpuyard top: the GPUs of a machine on a terminal, for as long as one likes.
#include <malloc.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/identifiers.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/read/gpu_filter.h"
#include "cli/read/source_access.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/top/session.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

using namespace top;

namespace {

Result<DisplayOptions> display_options_of(const TopVerb& verb, const Screen& screen) {
  DisplayOptions options;
  options.color = verb.color;
  options.palette =
      palette_of(environment_variable("TERM"), environment_variable("COLORTERM"), screen.color);
  options.charset = screen.utf8 ? Charset::block : Charset::ascii;
  if (verb.charset.empty()) return options;
  if (verb.charset == "braille") {
    options.charset = Charset::braille;
  } else if (verb.charset == "block" || verb.charset == "ascii") {
    options.charset = verb.charset == "block" ? Charset::block : Charset::ascii;
  } else {
    return Error{
        Errc::invalid,
        fmt::format("--charset: expected braille, block or ascii; got \"{}\"", verb.charset)};
  }
  return options;
}

Result<std::optional<Size>> parse_size(const std::string& value) {
  constexpr std::size_t kMaxSide = 1000;
  constexpr Size kMinSize{40, 8};  // less has no room for the rows of GPUs
  if (value.empty()) return std::optional<Size>();
  std::string_view text = value;
  const auto columns = take_number<std::size_t>(text);
  const bool cross = text.starts_with('x');
  if (cross) text.remove_prefix(1);
  const auto rows = parse_number<std::size_t>(text);
  if (!columns || !cross || !rows || *columns < kMinSize.columns || *rows < kMinSize.rows ||
      *columns > kMaxSide || *rows > kMaxSide) {
    return Error{Errc::invalid,
                 fmt::format("--size: expected WxH such as 80x24, from {}x{} to {}x{}; got \"{}\"",
                             kMinSize.columns, kMinSize.rows, kMaxSide, kMaxSide, value)};
  }
  return std::optional(Size{*columns, *rows});
}

// Sets the first view from the options.
Result<void> set_start_view(Model& model, const TopVerb& verb) {
  auto filter = Filter::parse(verb.filter, kFields, kGpuNumbers);
  if (!filter) return std::move(filter).error().in("--filter");
  model.filter = *std::move(filter);
  model.filter_text = verb.filter;
  model.query.clocks = !model.filter.empty();
  model.readonly = verb.readonly;
  model.mouse = !verb.no_mouse;
  if (!verb.pane.empty()) {
    const auto pane = enum_from_name<Pane>(verb.pane);
    if (!pane || *pane == Pane::help) {
      return Error{
          Errc::invalid,
          fmt::format("--pane: expected overview, gpu, processes, queue, alerts or usage; got "
                      "\"{}\"",
                      verb.pane)};
    }
    model.pane = model.query.pane = *pane;
  }
  if (verb.at.empty() || !verb.replay.empty()) return {};
  const auto at = parse_time(verb.at, wall_now());
  if (!at) return Error(at.error()).in("--at");
  model.query.at = *at;
  return {};
}

Result<void> select_gpu(Model& model, const std::string& name, std::string_view words) {
  if (name.empty()) return {};
  protocol::Snapshot snapshot = model.data.snapshot;
  if (auto kept = keep_only(snapshot, name, words); !kept)
    return std::move(kept).error().in("--gpu");
  List& list = model.lists[Pane::overview];
  list.selected = name_of(snapshot.devices.front());
  return {};
}

// The source of a verb, and its name.
struct SourceWithScreen {
  OpenSource open;
  std::unique_ptr<ScreenSource> screen;
};

Result<std::shared_ptr<SourceWithScreen>> open_screen_source(const TopVerb& verb) {
  if (!verb.replay.empty()) {
    const bool at_the_start = verb.at.empty() || verb.at == "0" || verb.at == "0s";
    const auto from = at_the_start ? Result<Duration>(Duration(0)) : parse_lifetime(verb.at);
    if (!from) return Error(from.error()).in("--at");
    auto screen_source =
        GPUYARD_TRY(make_recording_source(verb.replay, *from, verb.once ? 0 : verb.speed));
    return std::make_shared<SourceWithScreen>(SourceWithScreen{{}, std::move(screen_source)});
  }
  auto open =
      GPUYARD_TRY(open_source(verb.source, verb.once ? SimulatedLoad::load : SimulatedLoad::demo));
  auto source = std::make_shared<SourceWithScreen>(SourceWithScreen{std::move(open), nullptr});
  source->screen = make_screen_source(*source->open.source);
  return source;
}

std::string user_name() {
  const passwd* const us = ::getpwuid(::geteuid());
  return us != nullptr ? us->pw_name : std::to_string(::geteuid());
}

// Sets the user as the daemon knows them, and what can be done through the daemon.
void describe_session(Model& model, const TopVerb& verb, const ScreenSource& screen_source) {
  model.host = verb.replay.empty() ? host_name() : verb.replay;
  model.has_history = screen_source.has_history();
  model.is_replay = screen_source.is_replay();
  const http::Endpoint* const daemon = screen_source.daemon();
  const bool elsewhere = daemon != nullptr && daemon->is_remote();
  if (daemon != nullptr) {
    model.daemon = verb.source.socket.empty() ? daemon->text() : verb.source.socket;
    if (elsewhere) model.remote_daemon = model.host = model.daemon;
  }
  if (!elsewhere && !model.is_replay) model.uid = ::geteuid();
  model.user = user_name();
}

}  // namespace

Options add_top(Options program, TopVerb& verb) {
  const Options top =
      program.verb("top", "Show a live dashboard of GPUs, processes, leases and alerts");
  top.explain("Press ? for the keys. Without a terminal, top needs --once or --plain.")
      .example("gpuyard top")
      .example("gpuyard top --simulate 8", "Try the dashboard without a GPU")
      .example("gpuyard top --filter 'temp>80'")
      .example("gpuyard top --at 02:10", "See what was at ten past two")
      .example("gpuyard top --replay night.rec --speed 60");
  add_source(top, verb.source);
  add_color(top, verb.color);
  const Options view = top.heading("View");
  view.option("--pane", verb.pane, "Pane to open: overview, gpu, processes, queue, alerts or usage")
      .metavar("NAME")
      .default_is("overview");
  view.option("--gpu", verb.gpu, "GPU to select: index, UUID or PCI address").metavar("GPU");
  view.option("--filter", verb.filter,
              "Only rows that match a filter, e.g. 'temp>80 & user==alice'")
      .metavar("FILTER");
  view.flag("--read-only", verb.readonly, "Disable all actions that change something")
      .formerly("--readonly");
  const Options past = top.heading("Past");
  past.option("--at", verb.at,
              "Start at a past time, e.g. 02:10 or 3h (ago), or this far into the recording")
      .metavar("TIME");
  const Option replay =
      past.option("--replay", verb.replay, "Show a recording instead of GPUs").metavar("FILE");
  for (const char* other : {"--socket", "--local", "--nvml", "--simulate"}) {
    replay.excludes(top.find(other));
  }
  past.option("--speed", verb.speed, "Playback speed factor, 0.01 to 1000")
      .metavar("FACTOR")
      .default_is("1")
      .range(recording::kMinSpeed, recording::kMaxSpeed)
      .needs(replay);
  const Options output = top.heading("Output");
  output.flag("--once", verb.once, "Print one screen as text and exit");
  output.flag("--plain", verb.plain, "Print the state as lines of text, then only changes");
  output.option("--size", verb.size, "Screen size to draw, e.g. 120x40")
      .metavar("WxH")
      .default_is("the terminal's");
  output.option("--charset", verb.charset, "Drawing characters: braille, block or ascii")
      .metavar("NAME")
      .default_is("by locale");
  output.flag("--no-mouse", verb.no_mouse, "Do not use the mouse");
  return top;
}

int run(const TopVerb& verb) {
  // A thread for each GPU allocates little, and another thread frees it: with an arena for each of
  // them `top` takes a tenth more of the processor, and up to 2 MiB more.
  ::mallopt(M_ARENA_MAX, 1);
  const Screen screen = Screen::of_stdout(verb.color);
  auto options = display_options_of(verb, screen);
  if (!options) return print_error(options.error());
  const auto size = parse_size(verb.size);
  if (!size) return print_error(size.error());
  options->size = *size;
  Model model;
  if (const auto start_view = set_start_view(model, verb); !start_view)
    return print_error(start_view.error());
  const bool interactive = screen.terminal && ::isatty(STDIN_FILENO) == 1;
  if (!verb.once && !verb.plain && !interactive) {
    return print_error(
        {Errc::invalid, "top needs a terminal", "",
         fmt::format("{0} --once  # prints one screen\n{0} --plain  # prints lines", verb.line)});
  }
  SignalWaiter signals;  // before any thread
  auto source = open_screen_source(verb);
  if (!source) return print_source_error(source.error());
  ScreenSource& screen_source = *(*source)->screen;
  describe_session(model, verb, screen_source);
  auto first = screen_source.fetch(model.query);
  if (!first) return print_source_error(first.error());  // a first failure is no interruption
  model.utilization = screen_source.recent_utilization();
  model.now = first->at && model.is_replay ? *first->at : wall_now();
  update(model, *std::move(first));
  if (const auto chosen = select_gpu(model, verb.gpu, source_words(verb.source)); !chosen)
    return print_error(chosen.error());
  sort_lists(model);
  if (verb.once) {
    if (verb.plain) {
      for (const std::string& line : plain_lines(model)) print(formatted("{}\n", line));
    } else {
      print(render(model, options->size.value_or(size_of(screen)), options->charset).text());
    }
    return 0;
  }
  if (verb.plain) {
    run_plain(signals, screen_source, std::move(model));
    return 0;
  }
  // The polling thread keeps the source, too.
  run_interactive(signals, std::shared_ptr<ScreenSource>(*source, &screen_source), std::move(model),
                  *options);
  // It may be inside a call that never returns. A simulated world ends with us.
  (*source)->open.world.reset();
  std::_Exit(0);
}

}  // namespace gpuyard::cli
