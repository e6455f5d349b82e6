#include "io/notify/command_sender.h"

#include <gmock/gmock.h>

#include "base/json_writer.h"
#include "base/poll_loop_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/notify/notification_for_tests.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandSenderTest : public ::testing::Test {
 protected:
  SendResult run(std::vector<std::string> argv, const Notification& notice = hot_gpu(),
                 Duration timeout = seconds(20)) {
    SinkConfig sink;
    sink.name = "c";
    sink.kind = SinkKind::command;
    sink.argv = std::move(argv);
    sink.timeout = timeout;
    CommandSender sender(loop_, sink);
    std::optional<SendResult> result;
    sender.send({notice}, [&](SendResult outcome) { result = std::move(outcome); });
    EXPECT_TRUE(loop_.run_until([&] { return result.has_value(); }, seconds(30)));
    return result.value_or(SendResult::rejected("it never ended"));
  }

  PollLoop loop_;
  ScratchDirectory directory_;
};

TEST_F(CommandSenderTest, FindsTheNoticeInItsEnvironment) {
  const std::string out = directory_.write("out", "");
  const auto outcome = run({"/bin/sh", "-c", "env -0 | sort -z | tr '\\0' '\\n' > " + out});
  EXPECT_EQ(outcome.kind, SendResult::Kind::delivered) << outcome.reason;
  const std::string said = directory_.read("out");
  for (const char* line :
       {"GPUYARD_ALERT_ID=n-1\n", "GPUYARD_ALERT_STATUS=firing\n", "GPUYARD_ALERT_LEVEL=critical\n",
        "GPUYARD_ALERT_MESSAGE=GPU 3 is at 91 °C, threshold 80 °C\n", "GPUYARD_ALERT_GPU_INDEX=3\n",
        "GPUYARD_ALERT_STARTED_AT=2026-01-31T12:00:00.250Z\n", "GPUYARD_ALERT_ENDED_AT=\n",
        "GPUYARD_ALERT_TEST=0\n"}) {
    EXPECT_THAT(said, HasSubstr(line));
  }
  EXPECT_THAT(said, HasSubstr("GPUYARD_ALERT_JSON=" + json::to_json(hot_gpu())));
}

TEST_F(CommandSenderTest, ThatFailsIsRunAgainLater) {
  const auto outcome = run({"/bin/sh", "-c", "echo secret; exit 3"});
  EXPECT_EQ(outcome.kind, SendResult::Kind::retry);
  EXPECT_EQ(outcome.reason, "/bin/sh exited with status 3");
  EXPECT_THAT(run({"/nonexistent/x"}).reason, StartsWith("/nonexistent/x could not be started"));
}

TEST_F(CommandSenderTest, ThatHangsIsEndedAtItsDeadline) {
  const auto outcome = run({"/bin/sleep", "60"}, hot_gpu(), std::chrono::milliseconds(50));
  EXPECT_EQ(outcome.kind, SendResult::Kind::retry);
  EXPECT_THAT(outcome.reason, StartsWith("/bin/sleep was stopped after"));
}

}  // namespace

}  // namespace gpuyard::notify
