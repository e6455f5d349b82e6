#include "daemon/listener_opener.h"

#include <vector>

#include <gmock/gmock.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"

namespace gpuyard::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class ListenerOpenerTest : public ::testing::Test {
 protected:
  ListenerOpener::Open door(const std::string& name) {
    return [this, name]() -> Result<std::string> {
      ++tries_[name];
      if (const auto why = stuck_.find(name); why != stuck_.end()) {
        return Error{Errc::unavailable, why->second};
      }
      return "https://" + name;
    };
  }
  void add(const std::string& name) { doors_.add(name, door(name)); }

  ManualLoop loop_;
  std::map<std::string, std::string> stuck_;  // name and reason
  std::map<std::string, int> tries_;
  std::vector<std::string> opened_;
  ListenerOpener doors_{loop_, [this](const std::string& place) { opened_.push_back(place); }};
};

TEST_F(ListenerOpenerTest, OpenAtOnceIfPossible) {
  add("a");
  EXPECT_THAT(opened_, ElementsAre("https://a"));
  EXPECT_THAT(doors_.closed(), IsEmpty());
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(ListenerOpenerTest, ClosedListenerDoesNotBlockOthers) {
  stuck_["a"] = "is taken";
  add("a");
  add("b");
  EXPECT_THAT(opened_, ElementsAre("https://b"));
  EXPECT_THAT(doors_.closed(), ElementsAre(Pair("a", "is taken")));
}

TEST_F(ListenerOpenerTest, ClosedListenerIsRetriedUntilItOpens) {
  stuck_["a"] = "is taken";
  add("a");
  loop_.advance(ListenerOpener::kRetryDelay);
  EXPECT_EQ(tries_["a"], 2);
  stuck_.clear();
  loop_.advance(ListenerOpener::kRetryDelay);
  EXPECT_THAT(opened_, ElementsAre("https://a"));
  EXPECT_THAT(doors_.closed(), IsEmpty());
  loop_.advance(ListenerOpener::kRetryDelay * 3);
  EXPECT_EQ(tries_["a"], 3);
}

TEST_F(ListenerOpenerTest, ReasonIsLoggedOnceUntilItChanges) {
  const CapturedLog log;
  stuck_["a"] = "is taken";
  add("a");
  loop_.advance(ListenerOpener::kRetryDelay * 4);
  stuck_["a"] = "is no address";
  loop_.advance(ListenerOpener::kRetryDelay * 2);
  EXPECT_THAT(CapturedLog::lines(),
              ElementsAre("ERROR a is closed; retrying every 5 s: is taken",
                          "ERROR a is closed; retrying every 5 s: is no address"));
}

TEST_F(ListenerOpenerTest, NoListenerOpensAfterStop) {
  stuck_["a"] = "is taken";
  add("a");
  doors_.stop();
  stuck_.clear();
  loop_.advance(ListenerOpener::kRetryDelay * 2);
  add("b");
  EXPECT_THAT(opened_, IsEmpty());
  EXPECT_EQ(tries_["b"], 0);
}

}  // namespace
}  // namespace gpuyard::daemon
