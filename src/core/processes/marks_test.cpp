// The marks of processes, read directly and by `gpuyard marks`, which here is a thread.
#include "core/processes/marks.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "core/processes/evidence.h"
#include "core/processes/mark_client.h"
#include "core/processes/mark_host.h"
#include "core/processes/mark_records.h"
#include "core/processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr TimePoint kAfterStartup{std::chrono::hours(1)};

ProcessKey key(std::uint32_t pid) {
  return {pid, TimePoint(std::chrono::seconds(pid))};
}

std::array<UniqueFd, 2> pair_of_sockets() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class EnvironmentScannerTest : public ::testing::Test {
 protected:
  void put(std::uint32_t pid, const std::string& environment) {
    proc_.put({.pid = pid, .start_ticks = std::uint64_t{100} * pid, .environment = environment});
  }
  std::vector<MarkIndex> read(const std::vector<ScanTarget>& asked) {
    return reader_.read(asked, leases_, kAfterStartup, TimePoint{});
  }
  // Serves one connection on a thread, as the child of a daemon does.
  MarkClient::Connector helper() {
    return [this]() -> Result<MarkLink> {
      ++opened_;
      auto ends = pair_of_sockets();
      served_ = ends[1].get();
      threads_.emplace_back([this, socket = std::move(ends[1])]() mutable {
        serve_marks(std::move(socket), {proc_.root(), proc_.root()});
      });
      return MarkLink{std::move(ends[0])};
    };
  }

  ProcTree proc_;
  MarkReader reader_{proc_.root()};
  std::vector<std::string> leases_ = {"lease-a", "lease-b"};
  int opened_ = 0;
  int served_ = -1;
  std::vector<std::jthread> threads_;
};

TEST_F(EnvironmentScannerTest, ReaderReturnsIndexesOfLeases) {
  put(10, "GPUYARD_LEASE=lease-b");
  put(11, "GPUYARD_LEASE=lease-z");
  put(12, "PATH=/bin");
  proc_.put({.pid = 13, .start_ticks = 1300, .state = 'D', .environment = "GPUYARD_LEASE=lease-a"});
  const ProcessKey reused{10, TimePoint(std::chrono::seconds(11))};
  EXPECT_THAT(read({{key(10)}, {key(11)}, {key(12)}, {key(13)}, {key(99)}, {reused}}),
              ElementsAre(1, kNoMark, kNoMark, kMarkUnreadable, kMarkUnreadable, kMarkUnreadable));
}

TEST_F(EnvironmentScannerTest, ReaderRemembersUntilTheProgramChanges) {
  put(10, "GPUYARD_LEASE=lease-a");
  EXPECT_THAT(read({{key(10), 1}}), ElementsAre(0));
  put(10, "GPUYARD_LEASE=lease-b");
  EXPECT_THAT(read({{key(10), 1}}), ElementsAre(0));
  EXPECT_THAT(read({{key(10), 1, true}}), ElementsAre(1)) << "asked to read it again";
  put(10, "GPUYARD_LEASE=lease-a");
  EXPECT_THAT(read({{key(10), 2}}), ElementsAre(0)) << "another program";
}

TEST(MarkRecords, RequestSurvivesEncoding) {
  const MarkRequest request{.number = 7,
                            .scan = 3,
                            .pid_space = PidSpace::drivers,
                            .processes = {{key(10), 5, true}, {key(11), 6}},
                            .leases = {"a", std::string(kMaxLeaseIdLength, 'x'), ""}};
  EXPECT_EQ(parse_mark_request(bytes_of(request)), request);
  const auto places = parse_reply(encode_reply(request, {2, kNoMark}), request);
  ASSERT_TRUE(places);
  EXPECT_THAT(*places, ElementsAre(2, kNoMark));
}

TEST(MarkRecords, LeaseThatNoEnvironmentCanNameMatchesNone) {
  const MarkRequest request{.leases = {std::string(kMaxLeaseIdLength + 1, 'x')}};
  EXPECT_THAT(parse_mark_request(bytes_of(request))->leases, ElementsAre(""));
}

TEST(MarkRecords, ReplyIndexBeyondListIsRefused) {
  const MarkRequest asked{.number = 1, .processes = {{key(10)}}, .leases = {"a"}};
  MarkRequest wider = asked;
  wider.leases = {"a", "b", "c"};
  EXPECT_FALSE(parse_reply(encode_reply(wider, {2}), asked))
      << "a place that the list does not have";
  EXPECT_THAT(*parse_reply(encode_reply(asked, {2}), asked), ElementsAre(kMarkUnreadable))
      << "nor is one sent";
  EXPECT_THAT(*parse_reply(encode_reply(asked, {-100}), asked), ElementsAre(kMarkUnreadable));
  MarkRequest other = asked;
  other.number = 2;
  EXPECT_FALSE(parse_reply(encode_reply(other, {0}), asked)) << "of another question";
  EXPECT_FALSE(parse_reply(encode_reply(asked, {0}) + "x", asked));
  EXPECT_FALSE(parse_reply("", asked));
}

TEST(MarkRecords, TruncatedOrExtendedRequestIsRefused) {
  const std::string whole = bytes_of({.processes = {{key(10)}}, .leases = {"a"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_mark_request(std::string_view(whole).substr(0, length))) << length;
  }
  EXPECT_FALSE(parse_mark_request(whole + '\0'));
}

// For any request, the reply is one number for each process, within the list, or the connection
// ends: no byte of an environment, of which each has a secret here.
TEST_F(EnvironmentScannerTest, FuzzedRequestsYieldOnlyListIndexes) {
  for (std::uint32_t pid = 1; pid < 40; ++pid) put(pid, "SECRET=s3cr3t-value");
  put(10, std::string("SECRET=s3cr3t-value\0GPUYARD_LEASE=lease-a", 41));
  std::mt19937 random(41);  // NOLINT(cert-msc51-cpp): the same requests each time
  const auto any = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  int answered = 0;
  int ended = 0;
  for (int round = 0; round < 400; ++round) {
    auto ends = pair_of_sockets();
    const std::jthread host([this, socket = std::move(ends[1])]() mutable {
      serve_marks(std::move(socket), {proc_.root(), proc_.root()});
    });
    for (int packet = 0; packet < 4; ++packet) {
      MarkRequest request{.number = any(9), .scan = any(2), .pid_space = PidSpace{any(2)}};
      for (std::uint32_t i = any(50); i > 0; --i) {
        request.processes.push_back({key(any(50)), any(3), any(2) == 0});
      }
      for (std::uint32_t i = any(4); i > 0; --i) request.leases.emplace_back("lease-a");
      std::string bytes = bytes_of(request);
      for (std::uint32_t i = any(4); i > 0; --i)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (any(8) == 0) bytes.resize(any(200));
      const auto meant = parse_mark_request(bytes);
      if (bytes.empty() || ::send(ends[0].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
        break;
      std::string answer(kMaxMarkBytes, '\0');
      const ssize_t got = ::recv(ends[0].get(), answer.data(), answer.size(), 0);
      if (!meant) {
        EXPECT_LE(got, 0);
        ++ended;
        break;
      }
      ASSERT_GT(got, 0);
      answer.resize(static_cast<std::size_t>(got));
      const auto places = parse_reply(answer, *meant);
      ASSERT_TRUE(places);
      const auto most = static_cast<MarkIndex>(meant->leases.size());
      EXPECT_THAT(*places, AllOf(SizeIs(meant->processes.size()),
                                 Each(AllOf(Ge(kMarkUnreadable), Lt(most)))));
      EXPECT_EQ(answer.find("s3cr3t"), answer.npos);
      ++answered;
    }
    ends[0].reset();
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(ended, 100);
}

TEST_F(EnvironmentScannerTest, HiddenProcessViewMatchesProc) {
  proc_.put({.pid = 10, .start_ticks = 1000, .uid = kBen, .numbers = "10\t1"});
  proc_.put({.pid = 11, .start_ticks = 1100, .state = 'D', .parent = 10});
  MarkClient client(helper());
  for (const std::uint32_t pid : {10U, 11U}) {
    const auto view = client.view(PidSpace::ours, pid);
    ASSERT_TRUE(view) << view.error().text();
    EXPECT_EQ(*view, *view_process(proc_.root(), pid));
  }
  EXPECT_EQ(client.view(PidSpace::ours, 12).error().code, Errc::not_found);
  EXPECT_EQ(opened_, 1);
}

TEST_F(EnvironmentScannerTest, TableOfHiddenProcessesHasAllParts) {
  const std::uint32_t most = TableRequest::kMaxRows + 7;
  for (std::uint32_t pid = 1; pid <= most; ++pid) {
    proc_.put({.pid = pid, .start_ticks = pid, .state = pid == 9 ? 'Z' : 'S', .parent = pid - 1});
  }
  MarkClient client(helper());
  const auto table = client.table();
  ASSERT_TRUE(table);
  const auto direct = read_process_table(proc_.root());
  ASSERT_EQ(table->rows.size(), direct->rows.size());
  EXPECT_TRUE(table->complete);
  for (std::size_t i = 0; i < table->rows.size(); ++i) {
    EXPECT_EQ(table->rows[i].process, direct->rows[i].process);
    EXPECT_EQ(table->rows[i].parent, direct->rows[i].parent);
    EXPECT_EQ(table->rows[i].ended, direct->rows[i].ended);
  }
}

// The /proc of the daemon shows its own processes alone.
TEST_F(EnvironmentScannerTest, HiddenProcessesAreJudgedByHelperViews) {
  ProcTree hides;
  proc_.put({.pid = 1, .parent = 0, .uid = 0});
  proc_.put({.pid = 10, .start_ticks = 1000, .environment = "GPUYARD_LEASE=lease-a"});
  proc_.put({.pid = 11, .start_ticks = 1100, .parent = 10});
  proc_.put({.pid = 12, .start_ticks = 1200, .real_uid = kBen, .uid = kBen});
  EvidenceReader reader(hides.root(), hides.root(), {}, maker_by_path,
                        std::make_shared<MarkClient>(helper()));
  const std::vector<LeaseProcesses> leases = {{.lease = "lease-a", .uid = kAnna}};
  const auto evidence = reader.read(leases, {{11, kAfterStartup}, {12, kAfterStartup}},
                                    PidOrigin::simulation, kAfterStartup);
  const Membership membership(leases, evidence);
  EXPECT_EQ(membership.live_processes(0),
            (std::vector{ProcessKey{10, TimePoint(std::chrono::seconds(10))},
                         ProcessKey{11, TimePoint(std::chrono::seconds(11))}}));
  EXPECT_EQ(membership.contains(0, evidence.gpu_users.at(11)), true);
  EXPECT_EQ(membership.contains(0, evidence.gpu_users.at(12)), false);
}

TEST_F(EnvironmentScannerTest, OnlyListedFilesArePassed) {
  const ScratchDirectory place;
  place.write("listed", "secret");
  place.write("other", "shadow");
  ASSERT_EQ(::symlink(place.in("other").c_str(), place.in("link").c_str()), 0);
  const std::vector<std::string> files = {place.in("listed"), place.path()};
  const auto open = [&]() -> Result<MarkLink> {
    auto ends = pair_of_sockets();
    threads_.emplace_back([&files, this, socket = std::move(ends[1])]() mutable {
      serve_marks(std::move(socket), {proc_.root(), proc_.root()}, files);
    });
    return MarkLink{std::move(ends[0])};
  };
  const auto listed = request_file(open, place.in("listed"));
  if (::geteuid() == 0) {
    ASSERT_TRUE(listed) << listed.error().text();
    std::array<char, 16> bytes{};
    EXPECT_EQ(::read(listed->get(), bytes.data(), bytes.size()), 6);
  } else {
    EXPECT_EQ(listed.error().code, Errc::denied) << "others than root can change it";
  }
  EXPECT_EQ(request_file(open, place.in("other")).error().code, Errc::denied);
  EXPECT_EQ(request_file(open, place.in("link")).error().code, Errc::denied);
  EXPECT_EQ(request_file(open, place.path()).error().code, Errc::denied) << "a folder";
  threads_.clear();
}

TEST_F(EnvironmentScannerTest, FileWritableByOthersIsNotPassed) {
  const ScratchDirectory place;
  place.write("listed", "secret");
  ASSERT_EQ(::chmod(place.in("listed").c_str(), 0666), 0);
  const auto open = [&]() -> Result<MarkLink> {
    auto ends = pair_of_sockets();
    threads_.emplace_back([file = place.in("listed"), this, socket = std::move(ends[1])]() mutable {
      serve_marks(std::move(socket), {proc_.root(), proc_.root()}, {file});
    });
    return MarkLink{std::move(ends[0])};
  };
  EXPECT_EQ(request_file(open, place.in("listed")).error().code, Errc::denied);
}

TEST_F(EnvironmentScannerTest, ClientSplitsOversizedRequests) {
  std::vector<ScanTarget> asked;
  for (std::uint32_t pid = 1; pid <= MarkRequest::kMaxProcesses + 2; ++pid)
    asked.push_back({key(pid)});
  const auto last = static_cast<std::uint32_t>(asked.size());
  put(1, "GPUYARD_LEASE=first");
  put(last, "GPUYARD_LEASE=last");
  leases_.assign(MarkRequest::kMaxLeases + 1, "other");
  leases_.front() = "first";
  leases_.back() = "last";
  MarkClient client(helper());
  const auto places = client.fetch_marks(PidSpace::ours, asked, leases_);
  ASSERT_TRUE(places);
  EXPECT_EQ(places->front(), 0);
  EXPECT_EQ(places->back(), static_cast<MarkIndex>(MarkRequest::kMaxLeases));
  EXPECT_EQ(places->at(1), kMarkUnreadable) << "no such process";
}

TEST_F(EnvironmentScannerTest, ClientReplacesAConnectionThatEnded) {
  put(10, "GPUYARD_LEASE=lease-a");
  MarkClient client(helper());
  const std::vector<ScanTarget> asked = {{key(10)}};
  EXPECT_THAT(*client.fetch_marks(PidSpace::ours, asked, leases_), ElementsAre(0));
  ::shutdown(served_, SHUT_RDWR);
  EXPECT_THAT(*client.fetch_marks(PidSpace::ours, asked, leases_), ElementsAre(0));
  EXPECT_EQ(opened_, 2);
  EXPECT_EQ(client.error_text(), "");
}

TEST_F(EnvironmentScannerTest, SilentHelperIsAwaitedOnceThenPaused) {
  const CapturedLog log;
  std::vector<UniqueFd> silent;
  MarkClient client([&]() -> Result<MarkLink> {
    auto ends = pair_of_sockets();
    silent.push_back(std::move(ends[1]));
    return MarkLink{std::move(ends[0])};
  });
  const std::vector<ScanTarget> asked = {{key(10)}};
  const TimePoint began = BootClock::now();
  EXPECT_FALSE(client.fetch_marks(PidSpace::ours, asked, leases_));
  EXPECT_FALSE(client.fetch_marks(PidSpace::ours, asked, leases_));
  EXPECT_LT(BootClock::now() - began, 2 * MarkClient::kFirstReplyTimeout);
  EXPECT_THAT(silent, SizeIs(1));
  EXPECT_THAT(client.error_text(), HasSubstr("did not respond in time"));
  EXPECT_FALSE(client.has_replied());
}

TEST_F(EnvironmentScannerTest, KnownMarkStaysWhileTheHelperIsGone) {
  put(10, "GPUYARD_LEASE=lease-a");
  bool there = true;
  const auto open = helper();
  const auto client = std::make_shared<MarkClient>([&]() -> Result<MarkLink> {
    if (!there) return Error{Errc::unavailable, "no such socket"};
    return open();
  });
  EnvironmentScanner marks("/nowhere/proc", PidSpace::ours,
                           client);  // this process can read none itself
  EXPECT_EQ(marks.read({{key(10)}}, leases_, kAfterStartup)[0].lease, "lease-a");
  there = false;
  ::shutdown(served_, SHUT_RDWR);
  const auto later = marks.read({{key(10)}, {key(11)}}, leases_, kAfterStartup);
  EXPECT_EQ(later[0].lease, "lease-a");
  EXPECT_TRUE(later[0].known);
  EXPECT_FALSE(later[1].known) << "it may name a lease";
  EXPECT_THAT(client->error_text(), HasSubstr("no such socket"));
}

TEST_F(EnvironmentScannerTest, HiddenMarksAreNoneWithoutAHelper) {
  EnvironmentScanner marks("/nowhere/proc", PidSpace::ours, nullptr);
  EXPECT_TRUE(marks.read({{key(10)}}, leases_, kAfterStartup)[0].known);
}

}  // namespace
}  // namespace gpuyard::processes
