#include "gpu/driver/change_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::driver {
namespace {

constexpr std::int64_t kHighRateLimit = 1000;  // changes a minute

class ChangeLogTest : public ::testing::Test {
 protected:
  static ChangeLine limit(std::int64_t watts, std::int64_t before = 700) {
    ChangeLine change;
    change.step = ChangeStep::change;
    change.gpu = "GPU-a";
    change.setting = SettingKind::power_limit;
    change.before = SettingValue{before * 1000, before * 1000};
    change.value = SettingValue{watts * 1000, watts * 1000};
    return change;
  }
  LoggedChanges read() const {
    auto changes = read_change_log(path_);
    EXPECT_TRUE(changes.ok());
    return changes ? *std::move(changes) : LoggedChanges();
  }
  // Replaces the first occurrence of a text in the file.
  void rewrite(const std::string& from, const std::string& to) const {
    std::string text = place_.read("changes.log");
    text.replace(text.find(from), from.size(), to);
    place_.write("changes.log", text);
  }

  const ScratchDirectory place_;
  const std::string path_ = place_.in("changes.log");
};

TEST_F(ChangeLogTest, ChangesAreChainedAndOnlyTheUsers) {
  ChangeLog log(path_);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(log.begin(limit(300 + i), kHighRateLimit).ok());
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  const auto changes = read();
  EXPECT_TRUE(changes.faults.empty());
  ASSERT_EQ(changes.lines.size(), 6U);
  EXPECT_EQ(changes.lines[0].step, ChangeStep::start);
  EXPECT_EQ(changes.lines[5].number, 6U);
}

TEST_F(ChangeLogTest, ALineThatWasRewrittenIsNamed) {
  {
    ChangeLog log(path_);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(log.begin(limit(300 + i), kHighRateLimit).ok());
  }
  rewrite("302000", "402000");
  EXPECT_EQ(read().faults,
            std::vector<std::string>{path_ + ":4: the line does not match its hash, or lines "
                                             "before it are missing"});
}

TEST_F(ChangeLogTest, ALineThatWasRemovedIsNoticed) {
  {
    ChangeLog log(path_);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(log.begin(limit(300 + i), kHighRateLimit).ok());
  }
  const std::string text = place_.read("changes.log");
  const std::size_t second = text.find('\n') + 1;
  place_.write("changes.log", text.substr(0, second) + text.substr(text.find('\n', second) + 1));
  EXPECT_EQ(read().faults.size(), 1U);
}

TEST_F(ChangeLogTest, TwoSettersShareOneChain) {
  ChangeLog first(path_);
  ChangeLog second(path_);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(first.begin(limit(300 + i), kHighRateLimit).ok());
    ASSERT_TRUE(second.begin(limit(400 + i), kHighRateLimit).ok());
  }
  EXPECT_TRUE(read().faults.empty());
  EXPECT_TRUE(second.rate_limit_delay("GPU-a", 8)) << "the first one's count too";
}

TEST_F(ChangeLogTest, FullFileRotatesAndChainContinues) {
  constexpr std::size_t kSmall = 4096;
  {
    ChangeLog log(path_, kSmall);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(log.begin(limit(300 + i), kHighRateLimit).ok());
  }
  EXPECT_LT(std::filesystem::file_size(path_), kSmall + 1024);
  EXPECT_LT(std::filesystem::file_size(path_ + ".1"), kSmall + 1024);
  const auto changes = read();
  EXPECT_TRUE(changes.faults.empty());
  EXPECT_LT(changes.lines.size(), 100U);
  EXPECT_EQ(changes.lines.back().value, (SettingValue{399'000, 399'000}));
}

TEST_F(ChangeLogTest, TornLineBeforeStartIsNoFault) {
  {
    ChangeLog log(path_);
    ASSERT_TRUE(log.begin(limit(300), kHighRateLimit).ok());
  }
  place_.write("changes.log", place_.read("changes.log") + "0123456789abcdef");
  ChangeLog log(path_);
  ASSERT_TRUE(log.begin(limit(310), kHighRateLimit).ok());
  const auto changes = read();
  EXPECT_TRUE(changes.faults.empty()) << changes.faults.front();
  EXPECT_EQ(changes.lines.size(), 4U);
}

TEST_F(ChangeLogTest, GarbageBetweenLinesIsNamed) {
  {
    ChangeLog log(path_);
    ASSERT_TRUE(log.begin(limit(300), kHighRateLimit).ok());
    place_.write("changes.log", place_.read("changes.log") + "rubbish\n");
    ASSERT_TRUE(log.begin(limit(310), kHighRateLimit).ok());
  }
  EXPECT_EQ(read().faults, std::vector<std::string>{path_ + ":3: the line is not readable"});
}

TEST_F(ChangeLogTest, AFileOfOthersIsNotUsed) {
  place_.write("changes.log", "", 0644);
  ChangeLog log(path_);
  EXPECT_EQ(log.begin(limit(300), kHighRateLimit).error().code, Errc::denied);
}

TEST_F(ChangeLogTest, AFullDiskLeavesNoHalfLine) {
  ::signal(SIGXFSZ, SIG_IGN);
  ChangeLog log(path_);
  ASSERT_TRUE(log.begin(limit(300), kHighRateLimit).ok());
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{std::filesystem::file_size(path_) + 10, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(log.begin(limit(310), kHighRateLimit).ok());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
  ASSERT_TRUE(log.begin(limit(320), kHighRateLimit).ok());
  const auto changes = read();
  EXPECT_TRUE(changes.faults.empty());
  EXPECT_EQ(changes.lines.size(), 3U);
}

TEST_F(ChangeLogTest, AnEarlierValueIsKnownAfterARestart) {
  const SettingValue factory{700'000, 700'000};
  {
    ChangeLog log(path_);
    ASSERT_TRUE(log.begin(limit(300), kHighRateLimit).ok());
    ASSERT_TRUE(log.begin(limit(250, 300), kHighRateLimit).ok());
  }
  const ChangeLog log(path_);
  EXPECT_TRUE(log.was_earlier_value("GPU-a", SettingKind::power_limit, factory));
  EXPECT_FALSE(
      log.was_earlier_value("GPU-a", SettingKind::power_limit, SettingValue{300'000, 300'000}))
      << "a setter has set it";
  EXPECT_FALSE(log.was_earlier_value("GPU-b", SettingKind::power_limit, factory));
}

TEST_F(ChangeLogTest, WithoutAFileThereIsNoLog) {
  EXPECT_EQ(read_change_log(path_).error().code, Errc::not_found);
}

}  // namespace
}  // namespace gpuyard::driver
