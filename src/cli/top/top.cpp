// gpuyard top: the GPUs of a machine on a terminal, for as long as one likes. A thread asks the
// source; keys are answered from what it said last, however long it takes.
#include <poll.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/worker.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/top/render.h"
#include "cli/verbs.h"
#include "client/daemon_client.h"
#include "protocol/history.h"
#include "protocol/routes.h"

namespace gpuyard::cli {

using namespace top;

namespace {

constexpr Duration kBetweenLooks = std::chrono::seconds(1);
constexpr Duration kEscapeAlone = std::chrono::milliseconds(50);

// What the asking thread shares with the screen. It may be inside a call when the program ends.
struct Shared {
  explicit Shared(OpenSource opened) : open(std::move(opened)) {}

  OpenSource open;
  Published<News> news;
  Published<Error> failure;  // of the newest look; null: it went well
  UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

template <class Route, class Part>
void ask(const http::Endpoint& daemon, const Route& route, std::optional<Part>& part) {
  if (auto answer = client::call(daemon, route)) part = *std::move(answer);
}

Result<News> look(Source& source) {
  auto snapshot = source.snapshot(ProbeSet::all(), Owners::looked_up);
  if (!snapshot) return std::move(snapshot).error();
  if (!snapshot->driver_initialised && snapshot->devices.empty()) return no_driver(*snapshot);
  News news{*std::move(snapshot)};
  news.heard = wall_now();
  if (const http::Endpoint* const daemon = source.daemon()) {
    ask(*daemon, protocol::kLeases, news.leases);
    ask(*daemon, protocol::kQueue, news.queue);
    ask(*daemon, protocol::kAlerts, news.alerts);
  }
  return news;
}

// The last minute, which a daemon has kept: the first screen begins with it.
Recent recent_of(const Source& source) {
  Recent recent;
  const http::Endpoint* const daemon = source.daemon();
  if (daemon == nullptr) return recent;
  protocol::HistoryColumnsQuery query;
  query.metrics = "util";
  query.since = "2m";
  query.points = kRecent;
  const auto told = client::call(*daemon, protocol::kHistoryColumns, query);
  if (!told) return recent;
  for (const protocol::HistoryColumn& column : told->series) {
    for (const auto& mean : column.mean) {
      recent[column.uuid].push_back(mean ? *mean / 100 : kNoValue);
    }
  }
  return recent;
}

void ask_again_and_again(const std::shared_ptr<Shared>& shared) {
  for (TimePoint next = BootClock::now();;) {
    auto news = look(*shared->open.source);
    if (news) {
      shared->failure.store(nullptr);
      shared->news.store(std::make_shared<const News>(*std::move(news)));
    } else {
      shared->failure.store(std::make_shared<const Error>(std::move(news).error()));
    }
    constexpr std::uint64_t kOne = 1;
    static_cast<void>(::write(shared->bell.get(), &kOne, sizeof kOne));  // full: it rings already
    next = std::max(next + kBetweenLooks, BootClock::now());
    std::this_thread::sleep_for(next - BootClock::now());
  }
}

// A terminal that sends each key at once and shows none. The destructor brings back what was.
class RawTerminal {
 public:
  RawTerminal() : known_(::tcgetattr(STDIN_FILENO, &before_) == 0) { enter(); }
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  void enter() const {
    if (!known_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  void leave() const {
    if (known_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

 private:
  termios before_{};
  bool known_;
};

struct Look {
  Charset charset = Charset::block;
  Palette palette = Palette::mono;
};

Result<Look> look_of(const TopVerb& verb, const Screen& screen) {
  Look look;
  look.palette =
      palette_of(environment_variable("TERM"), environment_variable("COLORTERM"), screen.color);
  look.charset = screen.utf8 ? Charset::block : Charset::ascii;
  if (verb.charset.empty()) return look;
  if (verb.charset == "braille") {
    look.charset = Charset::braille;
  } else if (verb.charset == "block" || verb.charset == "ascii") {
    look.charset = verb.charset == "block" ? Charset::block : Charset::ascii;
  } else {
    return Error{Errc::invalid, "--charset is braille, block or ascii, not " + verb.charset};
  }
  return look;
}

constexpr std::size_t kMostColumns = 1000;

Result<Size> size_of(const TopVerb& verb, const Screen& screen) {
  if (verb.size.empty()) {
    return screen.terminal
               ? Size{std::min(screen.columns, kMostColumns), std::min(screen.rows, kMostColumns)}
               : Size{};
  }
  std::string_view text = verb.size;
  const auto columns = take_number<std::size_t>(text);
  const bool cross = text.starts_with('x');
  if (cross) text.remove_prefix(1);
  const auto rows = number_in<std::size_t>(text);
  if (!columns || !cross || !rows || *columns < 1 || *rows < 1 || *columns > kMostColumns ||
      *rows > kMostColumns) {
    return Error{Errc::invalid,
                 fmt::format("--size is COLUMNSxROWS, such as 80x24, of 1 to {}, not "
                             "\"{}\"",
                             kMostColumns, verb.size)};
  }
  return Size{*columns, *rows};
}

Model model_of(News news, Recent recent) {
  Model model;
  model.host = host_name();
  model.recent = std::move(recent);
  note(model.recent, news.snapshot);
  model.news = std::move(news);
  model.now = wall_now();
  return model;
}

// The screen and its user.
class Session {
 public:
  Session(std::shared_ptr<Shared> shared, Model model, const TopVerb& verb, Look look)
      : shared_(std::move(shared)), model_(std::move(model)), verb_(verb), look_(look) {}

  void go(Interruptions& interruptions) {
    const RawTerminal raw;
    LiveScreen live;
    draw();
    const std::array fds = {STDIN_FILENO, shared_->bell.get()};
    while (true) {
      const Duration patience = bytes_.empty() ? std::chrono::seconds(1) : kEscapeAlone;
      switch (interruptions.wait(BootClock::now() + patience, fds)) {
        case Interruptions::Cause::ended:
          return;
        case Interruptions::Cause::suspended:
          suspend(raw);
          break;
        case Interruptions::Cause::resized:
          shown_ = Grid(Size{0, 0});
          break;
        case Interruptions::Cause::readable:
          if (!read_keys()) return;
          hear();
          break;
        case Interruptions::Cause::time_passed:
          if (!press_keys(true)) return;
          break;
      }
      draw();
    }
  }

 private:
  void suspend(const RawTerminal& raw) {
    raw.leave();
    LiveScreen::suspend();
    raw.enter();
    shown_ = Grid(Size{0, 0});
  }

  // False: the user leaves, or the terminal is gone.
  bool read_keys() {
    pollfd polled{STDIN_FILENO, POLLIN, 0};
    if (::poll(&polled, 1, 0) <= 0) return true;
    std::array<char, 256> chunk{};
    const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got <= 0) return false;
    constexpr std::size_t kMostBytes = 4096;  // of keys that mean nothing yet
    if (bytes_.size() < kMostBytes) bytes_.append(chunk.data(), static_cast<std::size_t>(got));
    return press_keys(false);
  }
  bool press_keys(bool ended) {
    while (!bytes_.empty()) {
      const std::size_t before = bytes_.size();
      const Key key = take_key(bytes_, ended);
      if (!press(model_, key, size())) return false;
      if (bytes_.size() == before) break;  // the rest of a sequence is still to come
    }
    return true;
  }

  void hear() {
    std::uint64_t rung = 0;
    if (::read(shared_->bell.get(), &rung, sizeof rung) != sizeof rung) return;
    const auto failure = shared_->failure.load();
    model_.failure = failure ? "trying again: " + failure->message : "";
    const auto news = shared_->news.load();
    if (!news || news == heard_) return;
    heard_ = news;
    model_.news = *news;
    note(model_.recent, news->snapshot);
  }

  Size size() const {
    return *size_of(verb_, Screen::of_stdout(verb_.color));  // checked at the start
  }

  void draw() {
    model_.now = wall_now();
    Grid grid = render(model_, size(), look_.charset);
    const std::string bytes = grid.bytes_after(shown_, look_.palette);
    if (!bytes.empty()) print(bytes);
    shown_ = std::move(grid);
  }

  std::shared_ptr<Shared> shared_;
  Model model_;
  const TopVerb& verb_;
  Look look_;
  Grid shown_{Size{0, 0}};
  std::string bytes_;
  std::shared_ptr<const News> heard_;
};

}  // namespace

Options add_top(Options program, TopVerb& verb) {
  const Options top = program.verb("top", "Show everything on one screen, for as long as you like");
  add_source(top, verb.source);
  top.flag("--once", verb.once, "Print one screen as text, and end");
  top.option("--size", verb.size, "Draw for so large a screen: 120x40").type_name("WxH");
  top.option("--charset", verb.charset, "Draw with these signs: braille, block or ascii")
      .type_name("SIGNS");
  add_color(top, verb.color);
  return top;
}

int run(const TopVerb& verb) {
  const Screen screen = Screen::of_stdout(verb.color);
  const auto look_here = look_of(verb, screen);
  if (!look_here) return complain(look_here.error());
  const auto size = size_of(verb, screen);
  if (!size) return complain(size.error());
  const bool interactive = screen.terminal && ::isatty(STDIN_FILENO) == 1;
  if (!verb.once && !interactive) {
    return complain({Errc::invalid,
                     "top draws on a terminal, and this is none; `gpuyard top --once` "
                     "prints one screen, `gpuyard watch` goes on"});
  }
  Interruptions interruptions;  // before any thread
  auto open = open_source(verb.source);
  if (!open) return complain_about_source(open.error());
  auto first = look(*open->source);
  if (!first) return complain_about_source(first.error());  // a first failure is no interruption
  Model model = model_of(*std::move(first), recent_of(*open->source));
  if (verb.once) {
    print(render(model, *size, look_here->charset).text());
    return 0;
  }
  const auto shared = std::make_shared<Shared>(*std::move(open));
  std::thread([shared] { ask_again_and_again(shared); }).detach();
  Session(shared, std::move(model), verb, *look_here).go(interruptions);
  // The other thread may be inside a call that never returns. A simulated world ends with us.
  shared->open.world.reset();
  std::_Exit(0);
}

}  // namespace gpuyard::cli
