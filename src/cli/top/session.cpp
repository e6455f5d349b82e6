#include "cli/top/session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/published.h"
#include "base/spawn.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/top/verb_runner.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPollInterval = 1s;
constexpr Duration kEscapeDelay = 50ms;
// New data is drawn when it arrives, about once a second. Without any, the screen is drawn all the
// same, because it shows ages.
constexpr Duration kDataDelay = 200ms;

class Wakeup {
 public:
  int descriptor() const { return fd_.get(); }
  void notify() const {
    constexpr std::uint64_t kOne = 1;
    static_cast<void>(::write(fd_.get(), &kOne, sizeof kOne));  // full: it rings already
  }
  bool consume() const {
    std::uint64_t times = 0;
    return ::read(fd_.get(), &times, sizeof times) == sizeof times;
  }
  void wait(Duration at_most) const {
    pollfd polled{fd_.get(), POLLIN, 0};
    ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(to_milliseconds(at_most), 0)));
    consume();
  }

 private:
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// The result of a verb that was started for a dialog.
struct VerbOutcome {
  std::vector<std::string> words;
  Result<std::string> text;
};

// The state that other threads share with the screen. They may be inside a call when the program
// ends.
struct SharedState {
  explicit SharedState(std::shared_ptr<ScreenSource> screen_source)
      : source(std::move(screen_source)) {}

  std::shared_ptr<ScreenSource> source;
  Handover<ScreenData> data;
  Published<Error> failure;  // of the newest fetch; null: it went well
  Published<VerbOutcome> outcome;
  Published<ScreenQuery> query;
  Wakeup updated;        // something is new
  Wakeup query_changed;  // another query
};

void poll_source(const std::shared_ptr<SharedState>& shared) {
  while (true) {
    const TimePoint next = BootClock::now() + kPollInterval;
    const auto query = shared->query.load();
    auto data = shared->source->fetch(query ? *query : ScreenQuery{});
    if (data) {
      shared->failure.store(nullptr);
      shared->data.put(*std::move(data));
    } else {
      shared->failure.store(std::make_shared<const Error>(std::move(data).error()));
    }
    shared->updated.notify();
    shared->query_changed.wait(next - BootClock::now());
  }
}

class Session {
 public:
  Session(std::shared_ptr<SharedState> shared, Model model, const DisplayOptions& options)
      : shared_(std::move(shared)), model_(std::move(model)), options_(options) {}

  void run(SignalWaiter& signals) {
    const RawTerminal raw;
    raw_ = &raw;
    signals_ = &signals;
    LiveScreen live;
    use_mouse(true);
    draw();
    const std::array fds = {STDIN_FILENO, shared_->updated.descriptor()};
    auto cause = SignalWaiter::Cause::readable;
    bool stays = true;
    while (stays) {
      const bool late = cause == SignalWaiter::Cause::time_passed;
      const Duration timeout = !bytes_.empty() ? kEscapeDelay
                               : late          ? kPollInterval
                                               : kPollInterval + kDataDelay;
      cause = signals.wait(BootClock::now() + timeout, fds);
      switch (cause) {
        case SignalWaiter::Cause::ended:
          stays = false;
          break;
        case SignalWaiter::Cause::suspended:
          suspend();
          break;
        case SignalWaiter::Cause::resized:
          shown_ = Grid(Size{0, 0});
          break;
        case SignalWaiter::Cause::readable:
          stays = read_keys();
          on_wakeup();
          break;
        case SignalWaiter::Cause::time_passed:
          stays = press_keys(true);
          break;
      }
      stays = stays && !ended_;
      if (stays) draw();
    }
    use_mouse(false);
  }

 private:
  void use_mouse(bool on) const {
    if (model_.mouse) static_cast<void>(try_print(on ? Printable(kMouseOn) : kMouseOff).ok());
  }

  void suspend() {
    use_mouse(false);
    raw_->leave();
    LiveScreen::suspend();
    raw_->enter();
    use_mouse(true);
    shown_ = Grid(Size{0, 0});
  }

  // False: the user leaves, or the terminal is gone.
  bool read_keys() {
    pollfd polled{STDIN_FILENO, POLLIN, 0};
    if (::poll(&polled, 1, 0) <= 0) return true;
    std::array<char, 256> chunk{};
    const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got <= 0) return false;
    constexpr std::size_t kMaxPendingBytes = 4096;  // of keys that mean nothing yet
    if (bytes_.size() < kMaxPendingBytes)
      bytes_.append(chunk.data(), static_cast<std::size_t>(got));
    return press_keys(false);
  }

  bool press_keys(bool ended) {
    model_.now = wall_now();
    while (!bytes_.empty()) {
      const std::size_t before = bytes_.size();
      const SessionAction effect = handle_key(model_, take_stroke(bytes_, ended), shown_);
      if (effect.what == SessionAction::Kind::leave) return false;
      perform(effect);
      if (bytes_.size() == before) break;  // the rest of a sequence is still to come
    }
    publish_query();
    start_dry_run();
    return true;
  }

  void perform(const SessionAction& effect) {
    switch (effect.what) {
      case SessionAction::Kind::act:
        run_action();
        break;
      case SessionAction::Kind::verb:
        run_on_terminal(split_words(effect.text));
        break;
      case SessionAction::Kind::copy:
        if (!effect.text.empty()) print(clipboard_bytes(effect.text));
        model_.message = effect.text.empty() ? "nothing to copy" : "copied";
        break;
      case SessionAction::Kind::mouse:
        print(model_.mouse ? Printable(kMouseOn) : kMouseOff);
        break;
      case SessionAction::Kind::none:
      case SessionAction::Kind::leave:
        break;
    }
  }

  void publish_query() {
    if (published_query_ == model_.query) return;
    published_query_ = model_.query;
    shared_->query.store(std::make_shared<const ScreenQuery>(model_.query));
    shared_->query_changed.notify();
  }

  std::vector<std::string> with_daemon_socket(std::vector<std::string> words) const {
    words.insert(words.end(), {"--socket", model_.daemon});
    return words;
  }

  // One verb at a time; on_outcome() gets what it says.
  void start_verb(std::vector<std::string> words) {
    running_ = words;
    std::thread([shared = shared_, words = std::move(words)] {
      shared->outcome.store(
          std::make_shared<const VerbOutcome>(VerbOutcome{words, run_verb(words)}));
      shared->updated.notify();
    }).detach();
  }

  // Asks the daemon what the action would do. Runs again when the typed text has changed.
  void start_dry_run() {
    if (!model_.dialog) planned_.clear();
    if (!model_.dialog || model_.dialog->in_progress || !running_.empty()) return;
    const auto words = dry_run_words(model_.dialog->action);
    if (words.empty() || words == planned_) return;
    planned_ = words;
    start_verb(with_daemon_socket(words));
  }

  void run_action() {
    const Action& action = model_.dialog->action;
    if (action.command == Command::adopt || action.command == Command::signal) {
      if (auto known = check_process(action.process); !known) {
        return finish_action(model_, std::move(known).error());
      }
    }
    if (action.command == Command::signal) {
      const auto sent = send_signal(action.process, action.value(0));
      const std::string text =
          fmt::format("SIG{} sent to process {}", action.value(0), action.subject);
      return finish_action(model_, sent ? Result<std::string>(text) : sent.error());
    }
    if (running_.empty()) start_verb(with_daemon_socket(command_words(action)));
  }

  void on_outcome() {
    const auto outcome = shared_->outcome.load();
    if (!outcome || outcome == outcome_) return;
    outcome_ = outcome;
    running_.clear();
    if (!model_.dialog) return;
    Dialog& dialog = *model_.dialog;
    const auto command = with_daemon_socket(command_words(dialog.action));
    if (dialog.in_progress && outcome->words == command)
      return finish_action(model_, outcome->text);
    if (dialog.in_progress) return start_verb(command);  // a dry run was still under way
    // It may be the dry run of a closed dialog, or of an earlier text.
    const bool of_this = outcome->words == with_daemon_socket(dry_run_words(dialog.action));
    if (of_this) {
      dialog.planned =
          without_program_name(outcome->text ? *outcome->text : outcome->text.error().text());
    }
    start_dry_run();
  }

  void on_wakeup() {
    if (!shared_->updated.consume()) return;
    model_.now = wall_now();
    on_outcome();
    publish_query();
    const auto failure = shared_->failure.load();
    model_.failure = failure ? "retrying: " + failure->message : "";
    if (auto data = shared_->data.take()) update(model_, *std::move(data));
    sort_lists(model_);
  }

  // Waits as a shell does: a verb that is stopped stops us, too, until both go on. The terminal's
  // signals meanwhile were the verb's; another signal that ends us does so afterwards.
  static void wait_for_verb(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) suspend_self();
    const sigset_t of_terminal = signal_set({SIGINT, SIGQUIT, SIGTSTP});
    const timespec at_once{};
    while (::sigtimedwait(&of_terminal, nullptr, &at_once) > 0) {
    }
  }

  // The user's own screen, until the verb has ended and a key is pressed.
  void run_on_terminal(std::vector<std::string> words) {
    if (!words.empty() && words.front() == "gpuyard") words.erase(words.begin());
    if (words.empty()) return;
    use_mouse(false);
    raw_->leave();
    LiveScreen::leave();
    SpawnOptions options;
    options.arguments = words;
    options.connection = STDOUT_FILENO;  // the terminal, for questions and answers
    options.environment = {{"GPUYARD_SOCKET", model_.daemon}, {"GPUYARD_HOST", ""}};
    const auto child = spawn(options);
    if (!child) print(formatted("gpuyard: {}\n", child.error().text()));
    if (child) wait_for_verb(*child);
    print("\nPress Enter to return to top. ");
    const std::array fds = {STDIN_FILENO};
    auto cause = SignalWaiter::Cause::time_passed;
    while (cause != SignalWaiter::Cause::readable && cause != SignalWaiter::Cause::ended) {
      cause = signals_->wait(BootClock::now() + kPollInterval, fds);
    }
    ended_ = cause == SignalWaiter::Cause::ended;
    std::array<char, 64> line{};
    if (!ended_ && ::read(STDIN_FILENO, line.data(), line.size()) <= 0) ended_ = true;
    LiveScreen::enter();
    raw_->enter();
    use_mouse(true);
    shown_ = Grid(Size{0, 0});
    ++model_.query.change_count;  // perhaps
  }

  Size size() const { return options_.size.value_or(size_of(Screen::of_stdout(options_.color))); }

  void draw() {
    model_.now = wall_now();
    Grid grid = render(model_, size(), options_.charset);
    const Printable bytes = grid.diff_bytes(shown_, options_.palette);
    if (!bytes.empty()) print(bytes);
    shown_ = std::move(grid);
  }

  std::shared_ptr<SharedState> shared_;
  Model model_;
  DisplayOptions options_;
  const RawTerminal* raw_ = nullptr;
  SignalWaiter* signals_ = nullptr;
  bool ended_ = false;  // while a verb had the terminal
  Grid shown_{Size{0, 0}};
  std::string bytes_;
  ScreenQuery published_query_;
  std::vector<std::string> running_;  // the words of the verb that is under way
  std::vector<std::string> planned_;  // the dry run that was started last
  std::shared_ptr<const VerbOutcome> outcome_;
};

// Without its figures, which change all the time.
std::string in_words(const std::string& line) {
  std::string words = line;
  std::erase_if(words, [](char c) { return c >= '0' && c <= '9'; });
  return words;
}

}  // namespace

Size size_of(const Screen& screen) {
  constexpr std::size_t kMaxSide = 1000;
  return screen.terminal ? Size{std::min(screen.columns, kMaxSide), std::min(screen.rows, kMaxSide)}
                         : Size{};
}

void run_interactive(SignalWaiter& signals, std::shared_ptr<ScreenSource> source, Model model,
                     const DisplayOptions& options) {
  const auto shared = std::make_shared<SharedState>(std::move(source));
  shared->query.store(std::make_shared<const ScreenQuery>(model.query));
  std::thread([shared] { poll_source(shared); }).detach();
  Session(shared, std::move(model), options).run(signals);
}

void run_plain(SignalWaiter& signals, ScreenSource& source, Model model) {
  std::set<std::string> printed;
  TimePoint next = BootClock::now();
  do {
    sort_lists(model);
    std::set<std::string> now;
    for (const std::string& line : plain_lines(model)) {
      if (!printed.contains(in_words(line))) print(formatted("{}\n", line));
      now.insert(in_words(line));
    }
    printed = std::move(now);
    next = std::max(next + kPollInterval, BootClock::now());
    if (!wait_for_tick(signals, next)) return;
    auto data = source.fetch(model.query);
    model.now = wall_now();
    model.failure = data ? "" : "retrying: " + data.error().text();
    if (data) update(model, *std::move(data));
  } while (true);
}

}  // namespace gpuyard::cli::top
