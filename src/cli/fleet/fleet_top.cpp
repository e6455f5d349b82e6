// gpuyard fleet top: the machines live, on a terminal.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/fleet/fleet_table.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "faces/fleet/view.h"

namespace gpuyard::cli {
namespace {

using fleet::HostStatus;
using Order = FleetViewState::Order;
using Pane = FleetViewState::Pane;

constexpr std::array<std::string_view, 3> kPaneNames = {"machines", "GPUs", "users"};
constexpr std::array<std::string_view, 5> kOrderNames = {"as listed", "most free", "power",
                                                         "hottest", "alerts"};

template <class Enum, std::size_t Count>
Enum after(Enum now, const std::array<std::string_view, Count>&) {
  return static_cast<Enum>((static_cast<std::size_t>(now) + 1) % Count);
}

// The most goes first; machines that have never answered go last.
std::int64_t rank_of(const fleet::FleetNode& node, Order order) {
  switch (order) {
    case Order::named:
      return 0;
    case Order::free:
      return node.free;
    case Order::power:
      return node.power_w.value_or(-1);
    case Order::hottest:
      return node.hottest_c.value_or(-1);
    case Order::alerts:
      return node.alerts;
  }
  return 0;
}

void sort_statuses(std::vector<HostStatus>& statuses, Order order) {
  if (order == Order::named) return;
  std::vector<std::pair<std::int64_t, std::size_t>> ranks;  // the least goes first
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    std::int64_t rank = INT64_MAX;
    if (statuses[i].replied_at) {
      auto reply = statuses[i].reply;
      reply.problem.reset();
      rank = -rank_of(fleet::nodes_of({std::move(reply)}).nodes.front(), order);
    }
    ranks.emplace_back(rank, i);
  }
  std::ranges::sort(ranks);
  std::vector<HostStatus> sorted;
  for (const auto& [rank, i] : ranks) sorted.push_back(std::move(statuses[i]));
  statuses = std::move(sorted);
}

Printable text_of(const fleet::HostReplies<fleet::Brief>& replies, Pane pane,
                  const Screen& screen) {
  if (pane == Pane::nodes) return nodes_text(fleet::nodes_of(replies), screen);
  const auto gpus = fleet::gpus_of(replies);
  return pane == Pane::gpus ? gpus_text(gpus, screen) : users_text(fleet::users_of(gpus), screen);
}

bool has_been_polled(const HostStatus& status) {
  return status.reply.took > Duration::zero();
}

// "n7: last answer 12s ago: it did not respond in time"
std::vector<std::string> silent_host_lines(const std::vector<HostStatus>& statuses, TimePoint now) {
  std::vector<std::string> lines;
  for (const HostStatus& status : statuses) {
    if (!status.reply.problem) continue;
    const bool polled = has_been_polled(status);
    const std::string since =
        !status.replied_at
            ? polled ? "no answer yet" : "connecting"
            : fmt::format("last answer {} ago",
                          short_duration(std::chrono::duration_cast<std::chrono::seconds>(
                                             now - *status.replied_at)
                                             .count()));
    lines.push_back(fmt::format("{}: {}{}", status.reply.host.name, since,
                                polled ? ": " + status.reply.problem->text() : ""));
  }
  return lines;
}

// Takes a key from the front: a sign, or a sequence such as "\x1b[5~".
std::string_view take_key(std::string_view& keys) {
  constexpr std::string_view kBegins = "\x1b[";
  std::size_t length = 1;
  if (keys.starts_with(kBegins)) {
    const auto ends = [](char c) { return c >= '@' && c <= '~'; };
    const std::string_view rest = keys.substr(kBegins.size());
    length = kBegins.size() + 1 +
             static_cast<std::size_t>(std::ranges::find_if(rest, ends) - rest.begin());
  }
  const std::string_view key = keys.substr(0, length);
  keys.remove_prefix(key.size());
  return key;
}

// Presses all keys that have come. Returns false: the user wants to leave, or the terminal is gone.
bool handle_keys(FleetViewState& view, std::size_t page) {
  std::array<char, 256> space{};
  const ssize_t got = ::read(STDIN_FILENO, space.data(), space.size());
  if (got <= 0) return false;
  std::string_view keys(space.data(), static_cast<std::size_t>(got));
  while (!keys.empty()) {
    if (!handle_key(view, take_key(keys), page)) return false;
  }
  return true;
}

}  // namespace

bool handle_key(FleetViewState& view, std::string_view key, std::size_t page) {
  const auto scroll = [&](std::ptrdiff_t by) {
    const auto wanted = static_cast<std::ptrdiff_t>(view.scrolled) + by;
    view.scrolled = static_cast<std::size_t>(std::max<std::ptrdiff_t>(wanted, 0));
  };
  const auto all = static_cast<std::ptrdiff_t>(page);
  if (key == "q" || key == "\x03") return false;
  if (key == "\t" || key == "g") {
    view.pane = after(view.pane, kPaneNames);
    view.scrolled = 0;
  }
  if (key == "s") view.order = after(view.order, kOrderNames);
  if (key == "j" || key == "\x1b[B") scroll(1);
  if (key == "k" || key == "\x1b[A") scroll(-1);
  if (key == " " || key == "\x1b[6~") scroll(all);
  if (key == "b" || key == "\x1b[5~") scroll(-all);
  return true;
}

Printable fleet_screen(std::vector<HostStatus> statuses, FleetViewState& view, TimePoint now,
                       const Screen& screen) {
  sort_statuses(statuses, view.order);
  std::vector<std::string> silent = silent_host_lines(statuses, now);
  fleet::HostReplies<fleet::Brief> replies;
  for (HostStatus& status : statuses) {
    if (!has_been_polled(status)) continue;
    if (status.replied_at)
      status.reply.problem.reset();  // the last answer counts; its age is shown below
    replies.push_back(std::move(status.reply));
  }
  const std::vector<Printable> lines = text_of(replies, view.pane, screen).split();
  const std::string head =
      fmt::format("gpuyard fleet  {}, {}  tab: {}  s: sort  j k: scroll  q: quit",
                  kPaneNames.at(static_cast<std::size_t>(view.pane)),
                  kOrderNames.at(static_cast<std::size_t>(view.order)),
                  kPaneNames.at(static_cast<std::size_t>(after(view.pane, kPaneNames))));
  constexpr std::size_t kMaxSilent = 5;
  if (silent.size() > kMaxSilent) {
    const std::size_t more = silent.size() - kMaxSilent + 1;
    silent.resize(kMaxSilent - 1);
    silent.push_back(fmt::format("{} more not answering", more));
  }
  // The head, the table's own heading, and the silent machines stay; the rest scrolls.
  const std::size_t fixed = 2 + silent.size();
  const std::size_t room = screen.rows > fixed ? screen.rows - fixed : 1;
  const std::size_t rows = lines.empty() ? 0 : lines.size() - 1;
  view.scrolled = std::min(view.scrolled, rows > room ? rows - room : 0);
  Printable text =
      painted(screen, Tone::faint, truncate_text(head, screen.columns, screen.utf8)) + "\n";
  if (!lines.empty()) text += lines.front() + "\n";
  for (std::size_t i = 0; i < std::min(room, rows); ++i) {
    text += lines[1 + view.scrolled + i] + "\n";
  }
  for (const std::string& line : silent) {
    text +=
        painted(screen, Tone::bad, truncate_text(printable(line), screen.columns, screen.utf8)) +
        "\n";
  }
  return text;
}

int fleet_top(const std::vector<fleet::Host>& hosts, const fleet::FanOutOptions& options,
              ColorMode color) {
  if (!Screen::of_stdout().terminal || ::isatty(STDIN_FILENO) != 1) {
    return print_error(
        {Errc::invalid, "fleet top needs a terminal", "", "gpuyard fleet  # prints a table"});
  }
  SignalWaiter signals;  // before any thread
  fleet::FleetPoller poller(hosts, options);
  {
    const RawTerminal raw;
    const LiveScreen live;
    FleetViewState view;
    const std::array<int, 1> readable = {STDIN_FILENO};
    while (true) {
      const Screen screen = Screen::of_stdout(color);
      LiveScreen::draw(fleet_screen(poller.statuses(), view, BootClock::now(), screen),
                       screen.rows);
      using Cause = SignalWaiter::Cause;
      constexpr auto kRedraw = std::chrono::milliseconds(500);
      const Cause cause = signals.wait(BootClock::now() + kRedraw, readable);
      if (cause == Cause::ended) break;
      if (cause == Cause::suspended) {
        raw.leave();
        LiveScreen::suspend();
        raw.enter();
      }
      const std::size_t page = screen.rows > 4 ? screen.rows - 4 : 1;
      if (cause == Cause::readable && !handle_keys(view, page)) break;
    }
  }
  // The threads may wait for seconds yet. They and their ssh end with this process.
  std::_Exit(0);
}

}  // namespace gpuyard::cli
