#include "cli/top/action.h"

#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/top/dialog.h"
#include "cli/top/top_fixture_for_tests.h"
#include "cli/top/verb_runner.h"

namespace gpuyard::cli::top {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// The words that a row and keys come to; none if nothing is to be done.
std::vector<std::string> words_for_keys(Model& model, const std::string& keys) {
  if (press_keys(model, keys).what != SessionAction::Kind::act) return {};
  auto words = command_words(model.dialog->action);
  model.dialog.reset();
  return words;
}

TEST(Action, GpuInUseByOthersNeedsNumberConfirmation) {
  Model model = make_model(8);
  EXPECT_THAT(words_for_keys(model, "p\r"),
              ElementsAre("power", "GPU-00000000", "560", "--for", "30m", "--yes"))
      << "alice has it, and asks";
  press_keys(model, "jj");
  EXPECT_THAT(words_for_keys(model, "p\r"), ElementsAre()) << "bob has it";
  EXPECT_THAT(model.dialog->error, HasSubstr("enter 2: this affects other users"));
  EXPECT_THAT(words_for_keys(model, "2\r"),
              ElementsAre("power", "GPU-00000002", "560", "--for", "30m", "--yes"));
}

TEST(Action, PanesHaveOwnActions) {
  Model model = make_model(8);
  press_keys(model, "jj");
  EXPECT_THAT(words_for_keys(model, "cits fan is loud\t2\r"),
              ElementsAre("cordon", "GPU-00000002", "--reason=its fan is loud"));
  EXPECT_THAT(words_for_keys(model, "rhe left\tbob\r"),
              ElementsAre("lease", "release", "7f3a000000000002", "--force", "--reason=he left"));
  model.pane = Pane::alerts;
  EXPECT_THAT(words_for_keys(model, "a\r"), ElementsAre("alerts", "ack", "17"));
  EXPECT_THAT(words_for_keys(model, "aon it\r"),
              ElementsAre("alerts", "ack", "17", "--note=on it"));
  EXPECT_THAT(words_for_keys(model, "s\r"), ElementsAre("alerts", "silence", "GPU-00000003",
                                                        "--rule", "gpu-lost", "--for", "1h"));
  model.pane = Pane::queue;
  EXPECT_THAT(words_for_keys(model, "rtoo long\tgina\r"),
              ElementsAre("lease", "release", "9a00000000000000", "--force", "--reason=too long"));
  model.pane = Pane::processes;
  press_keys(model, "A");
  EXPECT_FALSE(model.dialog) << "it has a lease";
  EXPECT_THAT(model.message, HasSubstr("process 41229 uses no GPU without a lease"));
  EXPECT_THAT(words_for_keys(model, "x\r"), ElementsAre());
  EXPECT_THAT(words_for_keys(model, "41229\r"), ElementsAre("kill", "-TERM", "41229"));
  press_keys(model, "/user==mallory\r");
  EXPECT_THAT(words_for_keys(model, "A\r"), ElementsAre("lease", "adopt", "--pid", "41284"));
}

TEST(Action, ItsResultIsOneSentence) {
  Model model = make_model(8);
  model.pane = Pane::alerts;
  press_keys(model, "s\r");
  finish_action(model, std::string("ID    RULE\n3f2a  gpu-lost\n"));
  EXPECT_EQ(model.message, "Silenced gpu-lost on GPU 3 for 1h");
  model.pane = Pane::overview;
  press_keys(model, "p\r");
  finish_action(
      model, std::string("gpuyard: note: x\nGPU 0: power limit 560 W\nThese GPUs are simulated."));
  EXPECT_EQ(model.message, "GPU 0: power limit 560 W");
}

TEST(Action, ACordonedGpuIsUncordoned) {
  Model model = make_model(8);
  model.data.queue->withheld.push_back({0, "GPU-00000000", "cordoned", "cordoned by root", {}, {}});
  EXPECT_THAT(words_for_keys(model, "c0\r"), ElementsAre("uncordon", "GPU-00000000"));
}

TEST(Action, UndoRestoresLastChange) {
  Model model = make_model(8);
  EXPECT_FALSE(is_applicable(model, Command::undo));
  press_keys(model, "u");
  EXPECT_EQ(model.message, "nothing to undo");
  press_keys(model, "p\r");
  finish_action(model, std::string("GPU 0: power limit 560 W"));
  EXPECT_EQ(model.message, "GPU 0: power limit 560 W");
  EXPECT_THAT(words_for_keys(model, "u\r"),
              ElementsAre("power", "GPU-00000000", "--restore", "--yes"));
}

TEST(Action, FailureShowsErrorAndAddsNoUndo) {
  Model model = make_model(8);
  press_keys(model, "p\r");
  EXPECT_TRUE(model.dialog->in_progress);
  press_keys(model, "\r\r\x1b");
  ASSERT_TRUE(model.dialog) << "it is under way: keys do nothing";
  finish_action(model, Error{Errc::denied, "gpuyard: only administrators may"});
  EXPECT_EQ(model.dialog->error, "only administrators may");
  press_keys(model, "\x1b");
  EXPECT_FALSE(model.dialog);
  EXPECT_TRUE(model.undo.empty());
}

TEST(Action, TheLineIsOneForAShell) {
  Action action{Command::cordon, ""};
  action.subject = "GPU-1";
  action.fields = {{"reason", "it's $loud"}};
  EXPECT_EQ(shell_line(action, ""), "gpuyard cordon GPU-1 --reason='it'\\''s $loud'");
  EXPECT_EQ(shell_line(action, "ssh://lab"),
            "gpuyard -H ssh://lab cordon GPU-1 --reason='it'\\''s $loud'");
}

TEST(Action, ReadonlyPastReplayOrNoDaemonPreventsChanges) {
  for (const int why : {0, 1, 2, 3}) {
    Model model = make_model(8);
    model.readonly = why == 0;
    if (why == 1) model.query.at = kNow - 1min;
    if (why == 2) model.daemon.clear();
    model.is_replay = why == 3;
    model.undo = {"uncordon", "GPU-00000000"};
    for (const Pane pane : kPanes) {
      model.pane = pane;
      for (const KeyRow& row : key_rows()) {
        if (!row.changes || (why == 2 && row.command == Command::signal)) continue;
        EXPECT_EQ(press_keys(model, std::string(1, row.keys[0])).what, SessionAction::Kind::none);
        EXPECT_FALSE(model.dialog) << row.keys << enum_name(pane);
        EXPECT_FALSE(model.prompt) << row.keys;
      }
    }
  }
}

// Over ssh one's own lease needs no right of administrators.
TEST(Action, RemoteLeaseIsReleasedWithoutForce) {
  Model model = make_model(8);
  model.uid.reset();
  EXPECT_THAT(words_for_keys(model, "r\r"), ElementsAre()) << "the user's name comes first";
  EXPECT_THAT(words_for_keys(model, "alice\r"),
              ElementsAre("lease", "release", "7f3a000000000000"));
}

// A daemon of another machine: a pid there is nobody's here.
TEST(Action, RemoteProcessShowsKillCommandWithoutSignal) {
  Model model = make_model(8);
  model.uid.reset();
  model.pane = Pane::processes;
  press_keys(model, "x");
  EXPECT_FALSE(model.dialog);
  EXPECT_THAT(model.message, HasSubstr("kill -TERM 41229"));
}

TEST(Signal, SignalReachesOnlyMatchingProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto started = static_cast<std::int64_t>(*process_start_time(child)) * 10;
  const auto pid = static_cast<std::uint32_t>(child);
  EXPECT_EQ(send_signal({pid, started + 10, {}}, "TERM").error().code, Errc::not_found);
  EXPECT_EQ(send_signal({pid, {}, {}}, "TERM").error().code, Errc::unsupported);
  EXPECT_EQ(send_signal({pid, started, {}}, "STOP").error().code, Errc::invalid);
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it is still there";
  EXPECT_TRUE(send_signal({pid, started, {}}, "TERM").ok());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  EXPECT_EQ(send_signal({pid, started, {}}, "TERM").error().code, Errc::not_found);
}

// Changes that may happen between a key and Enter.
void change_model_randomly(Model& model, std::mt19937& chance) {
  const auto any = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(chance);
  };
  auto& devices = model.data.snapshot.devices;
  auto& processes = devices[any(devices.size())].processes;
  switch (any(6)) {
    case 0:  // other figures, another order
      for (protocol::Device& device : devices) {
        if (!device.processes) continue;
        for (auto& process : *device.processes) {
          process.sm_percent = static_cast<std::int64_t>(any(100));
        }
      }
      break;
    case 1:  // a pid is another process's
      if (processes && !processes->empty()) *processes->at(0).started_after_boot_ms += 10;
      break;
    case 2:  // a process has ended
      if (processes && !processes->empty()) processes->erase(processes->begin());
      break;
    case 3:  // a lease is another's
      if (!model.data.leases->leases.empty()) {
        auto& lease = model.data.leases->leases[any(model.data.leases->leases.size())];
        lease.id = fmt::format("{:016x}", any(1'000'000));
        lease.user = "nobody";
        lease.uid = 7;
      }
      break;
    case 4:  // a GPU is gone, and the others have other indexes
      if (devices.size() > 2) devices.erase(devices.begin() + 1);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        devices[i].index = static_cast<std::uint32_t>(i);
      }
      break;
    default:
      model.now += 10s;
  }
  sort_lists(model);
}

TEST(Action, ConfirmedTargetSurvivesScreenUpdates) {
  std::mt19937 chance(7);  // NOLINT: the same each time
  const auto any = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(chance);
  };
  int done = 0;
  for (int round = 0; round < 300; ++round) {
    Model model = make_model(8);
    model.pane = kPanes.at(any(3));
    press_keys(model, std::string(any(8), 'j'));
    change_model_randomly(model, chance);
    press_keys(model, std::string(1, "pcrAx"[any(5)]));
    if (!model.dialog) continue;
    const std::string title = model.dialog->action.title;
    const auto words = command_words(model.dialog->action);
    const std::string subject = model.dialog->action.subject;
    const ProcessKey process = model.dialog->action.process;
    const std::string drawn = render(model, {200, 60}, Charset::ascii).text();
    EXPECT_THAT(drawn, HasSubstr(title)) << "the user has seen what it is about";
    for (std::size_t i = any(4); i > 0; --i) change_model_randomly(model, chance);
    Dialog& dialog = *model.dialog;
    if (!dialog.action.fields.empty() && dialog.action.fields[0].value.empty()) {
      dialog.action.fields[0].value = "why";
    }
    dialog.typed_confirmation = dialog.action.confirmation;
    ASSERT_EQ(press_keys(model, "\r").what, SessionAction::Kind::act) << dialog.error;
    ++done;
    EXPECT_EQ(model.dialog->action.title, title);
    EXPECT_EQ(model.dialog->action.subject, subject);
    EXPECT_EQ(model.dialog->action.process.pid, process.pid);
    EXPECT_EQ(model.dialog->action.process.started_after_boot_ms, process.started_after_boot_ms);
    EXPECT_THAT(command_words(model.dialog->action), testing::Contains(subject));
  }
  EXPECT_GT(done, 90);
}

}  // namespace
}  // namespace gpuyard::cli::top
