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
  ListenerOpener::OpenListener make_open(const std::string& name) {
    return [this, name]() -> Result<std::string> {
      ++tries_[name];
      if (const auto why = errors_.find(name); why != errors_.end()) {
        return Error{Errc::unavailable, why->second};
      }
      return "https://" + name;
    };
  }
  void add(const std::string& name) { opener_.add(name, make_open(name)); }

  ManualLoop loop_;
  std::map<std::string, std::string> errors_;  // name and reason
  std::map<std::string, int> tries_;
  std::vector<std::string> opened_;
  ListenerOpener opener_{loop_, [this](const std::string& address) { opened_.push_back(address); }};
};

TEST_F(ListenerOpenerTest, OpenAtOnceIfPossible) {
  add("a");
  EXPECT_THAT(opened_, ElementsAre("https://a"));
  EXPECT_THAT(opener_.closed(), IsEmpty());
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(ListenerOpenerTest, ClosedListenerDoesNotBlockOthers) {
  errors_["a"] = "is taken";
  add("a");
  add("b");
  EXPECT_THAT(opened_, ElementsAre("https://b"));
  EXPECT_THAT(opener_.closed(), ElementsAre(Pair("a", "is taken")));
}

TEST_F(ListenerOpenerTest, ClosedListenerIsRetriedUntilItOpens) {
  errors_["a"] = "is taken";
  add("a");
  loop_.advance(ListenerOpener::kRetryDelay);
  EXPECT_EQ(tries_["a"], 2);
  errors_.clear();
  loop_.advance(ListenerOpener::kRetryDelay);
  EXPECT_THAT(opened_, ElementsAre("https://a"));
  EXPECT_THAT(opener_.closed(), IsEmpty());
  loop_.advance(ListenerOpener::kRetryDelay * 3);
  EXPECT_EQ(tries_["a"], 3);
}

TEST_F(ListenerOpenerTest, ReasonIsLoggedOnceUntilItChanges) {
  const CapturedLog log;
  errors_["a"] = "is taken";
  add("a");
  loop_.advance(ListenerOpener::kRetryDelay * 4);
  errors_["a"] = "is no address";
  loop_.advance(ListenerOpener::kRetryDelay * 2);
  EXPECT_THAT(CapturedLog::lines(),
              ElementsAre("ERROR a is closed; retrying every 5 s: is taken",
                          "ERROR a is closed; retrying every 5 s: is no address"));
}

TEST_F(ListenerOpenerTest, NoListenerOpensAfterStop) {
  errors_["a"] = "is taken";
  add("a");
  opener_.stop();
  errors_.clear();
  loop_.advance(ListenerOpener::kRetryDelay * 2);
  add("b");
  EXPECT_THAT(opened_, IsEmpty());
  EXPECT_EQ(tries_["b"], 0);
}

}  // namespace
}  // namespace gpuyard::daemon
