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

#include "base/spawn.h"
#include "base/worker.h"
#include "cli/shared_options.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBetweenLooks = 1s;
constexpr Duration kEscapeAlone = 50ms;

class Bell {
 public:
  int fd() const { return fd_.get(); }
  void ring() const {
    constexpr std::uint64_t kOne = 1;
    static_cast<void>(::write(fd_.get(), &kOne, sizeof kOne));  // full: it rings already
  }
  bool rung() const {
    std::uint64_t times = 0;
    return ::read(fd_.get(), &times, sizeof times) == sizeof times;
  }
  void wait(Duration at_most) const {
    pollfd polled{fd_.get(), POLLIN, 0};
    ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(to_milliseconds(at_most), 0)));
    rung();
  }

 private:
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// What a verb that was started for a dialog came to.
struct Outcome {
  std::vector<std::string> words;
  Result<std::string> text;
};

// What the other threads share with the screen. They may be inside a call when the program ends.
struct Shared {
  explicit Shared(std::shared_ptr<Teller> asked) : teller(std::move(asked)) {}

  std::shared_ptr<Teller> teller;
  Published<News> news;
  Published<Error> failure;  // of the newest look; null: it went well
  Published<Outcome> outcome;
  Published<Wish> wish;
  Bell bell;    // something is new
  Bell wanted;  // another wish
};

void ask_again_and_again(const std::shared_ptr<Shared>& shared) {
  while (true) {
    const TimePoint next = BootClock::now() + kBetweenLooks;
    const auto wish = shared->wish.load();
    auto news = shared->teller->tell(wish ? *wish : Wish{});
    if (news) {
      shared->failure.store(nullptr);
      shared->news.store(std::make_shared<const News>(*std::move(news)));
    } else {
      shared->failure.store(std::make_shared<const Error>(std::move(news).error()));
    }
    shared->bell.ring();
    shared->wanted.wait(next - BootClock::now());
  }
}

class Session {
 public:
  Session(std::shared_ptr<Shared> shared, Model model, const Look& look)
      : shared_(std::move(shared)), model_(std::move(model)), look_(look) {}

  void go(Interruptions& interruptions) {
    const RawTerminal raw;
    raw_ = &raw;
    interruptions_ = &interruptions;
    LiveScreen live;
    use_mouse(true);
    draw();
    const std::array fds = {STDIN_FILENO, shared_->bell.fd()};
    bool stays = true;
    while (stays) {
      const Duration patience = bytes_.empty() ? kBetweenLooks : kEscapeAlone;
      switch (interruptions.wait(BootClock::now() + patience, fds)) {
        case Interruptions::Cause::ended:
          stays = false;
          break;
        case Interruptions::Cause::suspended:
          suspend();
          break;
        case Interruptions::Cause::resized:
          shown_ = Grid(Size{0, 0});
          break;
        case Interruptions::Cause::readable:
          stays = read_keys();
          listen();
          break;
        case Interruptions::Cause::time_passed:
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
    constexpr std::size_t kMostBytes = 4096;  // of keys that mean nothing yet
    if (bytes_.size() < kMostBytes) bytes_.append(chunk.data(), static_cast<std::size_t>(got));
    return press_keys(false);
  }

  bool press_keys(bool ended) {
    model_.now = wall_now();
    while (!bytes_.empty()) {
      const std::size_t before = bytes_.size();
      const Effect effect = press(model_, take_stroke(bytes_, ended), shown_);
      if (effect.what == Effect::What::leave) return false;
      carry_out(effect);
      if (bytes_.size() == before) break;  // the rest of a sequence is still to come
    }
    tell_wish();
    plan();
    return true;
  }

  void carry_out(const Effect& effect) {
    switch (effect.what) {
      case Effect::What::act:
        act();
        break;
      case Effect::What::verb:
        run_on_terminal(words_in(effect.text));
        break;
      case Effect::What::copy:
        if (!effect.text.empty()) print(clipboard_bytes(effect.text));
        model_.said = effect.text.empty() ? "nothing to copy" : "copied";
        break;
      case Effect::What::mouse:
        print(model_.mouse ? Printable(kMouseOn) : kMouseOff);
        break;
      case Effect::What::none:
      case Effect::What::leave:
        break;
    }
  }

  void tell_wish() {
    if (wished_ == model_.wish) return;
    wished_ = model_.wish;
    shared_->wish.store(std::make_shared<const Wish>(model_.wish));
    shared_->wanted.ring();
  }

  std::vector<std::string> asked_of_daemon(std::vector<std::string> words) const {
    words.insert(words.end(), {"--socket", model_.daemon});
    return words;
  }

  // One verb at a time; what it says comes by listen().
  void start(std::vector<std::string> words) {
    running_ = words;
    std::thread([shared = shared_, words = std::move(words)] {
      shared->outcome.store(std::make_shared<const Outcome>(Outcome{words, run_verb(words)}));
      shared->bell.ring();
    }).detach();
  }

  // What the action would do, as the daemon says: asked anew when something else was typed.
  void plan() {
    if (!model_.dialog) planned_.clear();
    if (!model_.dialog || model_.dialog->under_way || !running_.empty()) return;
    const auto words = plan_of(model_.dialog->action);
    if (words.empty() || words == planned_) return;
    planned_ = words;
    start(asked_of_daemon(words));
  }

  void act() {
    const Action& action = model_.dialog->action;
    if (action.command == Command::adopt || action.command == Command::signal) {
      if (auto known = check_process(action.process); !known) {
        return finish(model_, std::move(known).error());
      }
    }
    if (action.command == Command::signal) {
      const auto sent = send_signal(action.process, action.value(0));
      const std::string text =
          fmt::format("SIG{} sent to process {}", action.value(0), action.subject);
      return finish(model_, sent ? Result<std::string>(text) : sent.error());
    }
    if (running_.empty()) start(asked_of_daemon(deed_of(action)));
  }

  void hear_outcome() {
    const auto outcome = shared_->outcome.load();
    if (!outcome || outcome == outcome_) return;
    outcome_ = outcome;
    running_.clear();
    if (!model_.dialog) return;
    Dialog& dialog = *model_.dialog;
    const auto deed = asked_of_daemon(deed_of(dialog.action));
    if (dialog.under_way && outcome->words == deed) return finish(model_, outcome->text);
    if (dialog.under_way) return start(deed);  // a plan was still under way
    // It may be the plan of a dialog that was closed, or of what was typed before.
    const bool of_this = outcome->words == asked_of_daemon(plan_of(dialog.action));
    if (of_this) {
      dialog.planned =
          without_program_name(outcome->text ? *outcome->text : outcome->text.error().text());
    }
    plan();
  }

  void listen() {
    if (!shared_->bell.rung()) return;
    model_.now = wall_now();
    hear_outcome();
    tell_wish();
    const auto failure = shared_->failure.load();
    model_.failure = failure ? "retrying: " + failure->message : "";
    const auto news = shared_->news.load();
    if (news && news != heard_) {
      heard_ = news;
      hear(model_, *news);
    }
    arrange(model_);
  }

  // Waits as a shell does: a verb that is stopped stops us, too, until both go on. What the
  // terminal sent meanwhile was the verb's; another signal that ends us does so afterwards.
  static void wait_for_verb(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) stop_as_asked();
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
    SpawnOptions plan;
    plan.arguments = words;
    plan.connection = STDOUT_FILENO;  // the terminal, for questions and answers
    plan.environment = {{"GPUYARD_SOCKET", model_.daemon}, {"GPUYARD_HOST", ""}};
    const auto child = spawn(plan);
    if (!child) print(formatted("gpuyard: {}\n", child.error().text()));
    if (child) wait_for_verb(*child);
    print("\nPress Enter to return to top. ");
    const std::array fds = {STDIN_FILENO};
    auto cause = Interruptions::Cause::time_passed;
    while (cause != Interruptions::Cause::readable && cause != Interruptions::Cause::ended) {
      cause = interruptions_->wait(BootClock::now() + kBetweenLooks, fds);
    }
    ended_ = cause == Interruptions::Cause::ended;
    std::array<char, 64> line{};
    if (!ended_ && ::read(STDIN_FILENO, line.data(), line.size()) <= 0) ended_ = true;
    LiveScreen::enter();
    raw_->enter();
    use_mouse(true);
    shown_ = Grid(Size{0, 0});
    ++model_.wish.changes;  // perhaps
  }

  Size size() const { return look_.size.value_or(size_of(Screen::of_stdout(look_.color))); }

  void draw() {
    model_.now = wall_now();
    Grid grid = render(model_, size(), look_.charset);
    const Printable bytes = grid.bytes_after(shown_, look_.palette);
    if (!bytes.empty()) print(bytes);
    shown_ = std::move(grid);
  }

  std::shared_ptr<Shared> shared_;
  Model model_;
  Look look_;
  const RawTerminal* raw_ = nullptr;
  Interruptions* interruptions_ = nullptr;
  bool ended_ = false;  // while a verb had the terminal
  Grid shown_{Size{0, 0}};
  std::string bytes_;
  Wish wished_;
  std::vector<std::string> running_;  // the words of the verb that is under way
  std::vector<std::string> planned_;  // the plan that was asked for last
  std::shared_ptr<const News> heard_;
  std::shared_ptr<const Outcome> outcome_;
};

// Without its figures, which change all the time.
std::string in_words(const std::string& line) {
  std::string words = line;
  std::erase_if(words, [](char c) { return c >= '0' && c <= '9'; });
  return words;
}

}  // namespace

Size size_of(const Screen& screen) {
  constexpr std::size_t kMost = 1000;
  return screen.terminal ? Size{std::min(screen.columns, kMost), std::min(screen.rows, kMost)}
                         : Size{};
}

void show_until_left(Interruptions& interruptions, std::shared_ptr<Teller> teller, Model model,
                     const Look& look) {
  const auto shared = std::make_shared<Shared>(std::move(teller));
  shared->wish.store(std::make_shared<const Wish>(model.wish));
  std::thread([shared] { ask_again_and_again(shared); }).detach();
  Session(shared, std::move(model), look).go(interruptions);
}

void tell_until_ended(Interruptions& interruptions, Teller& teller, Model model) {
  std::set<std::string> told;
  TimePoint next = BootClock::now();
  do {
    arrange(model);
    std::set<std::string> now;
    for (const std::string& line : plain_lines(model)) {
      if (!told.contains(in_words(line))) print(formatted("{}\n", line));
      now.insert(in_words(line));
    }
    told = std::move(now);
    next = std::max(next + kBetweenLooks, BootClock::now());
    if (!wait_for_tick(interruptions, next)) return;
    auto news = teller.tell(model.wish);
    model.now = wall_now();
    model.failure = news ? "" : "retrying: " + news.error().text();
    if (news) hear(model, *std::move(news));
  } while (true);
}

}  // namespace gpuyard::cli::top
