// Kills the daemon at every commit to its disk, before the disk has it and right after, in every
// scenario of control. docs/control_crashes.md lists what reached the driver, in order;
// GPUYARD_WRITE_GOLDEN=1 rewrites it.
#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "base/record.h"
#include "core/control/control_fixture_for_tests.h"

namespace gpuyard::control {
namespace {

using std::chrono::seconds;

struct Scenario {
  const char* name;
  void (*run)(ControlFixture&, Daemon&);
  ControlPolicy policy = {true, false};
};

ChangeRequest of(Daemon& daemon, const std::string& owner, ChangeAction action) {
  return {{owner, true, "r", daemon.loop.now()}, {"GPU-0", "GPU-1"}, action};
}

const std::vector<Scenario> kScenarios = {
    {"One owner sets a power limit",
     [](ControlFixture&, Daemon& daemon) { daemon.put("a", power_limit(300'000)); }},
    {"One owner sets a limit twice and restores it",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       daemon.put("a", power_limit(250'000));
       daemon.restore("a");
     }},
    {"Two owners, and the lower limit is restored first",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       daemon.put("b", power_limit(200'000));
       daemon.restore("b");
       daemon.restore("a");
     }},
    {"A limit for a minute",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", power_limit(300'000), seconds(60));
       daemon.pass(seconds(61));
     }},
    {"Clocks, which cannot be read back",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", gpu_clocks(1200, 1500));
       daemon.restore("a", SettingKind::gpu_clocks);
     }},
    {"Persistence mode on and back",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", persistence(true));
       daemon.restore("a", SettingKind::persistence);
     }},
    {"A change outside gpuyard, then a restore",
     [](ControlFixture& fixture, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       if (!fixture.killed) fixture.power("GPU-0") = {420'000, 420'000};
       daemon.restore("a");
     }},
    {"The driver is reloaded",
     [](ControlFixture& fixture, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       if (fixture.killed) return;
       daemon.lose_host();
       fixture.reload_driver();
       daemon.start_driver_host();
       daemon.restore("a");
     }},
    {"An atomic change of two GPUs, one set by another owner",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("b", gpu_clocks(1000, 1000), {}, "GPU-1");
       ChangeRequest request = of(daemon, "a", SetValue{gpu_clocks(1200, 1500), {}});
       request.atomic = true;
       daemon.ask(request);
     }},
    {"An administrator overrides a setting",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", gpu_clocks(1200, 1500));
       ChangeRequest request = of(daemon, "root", SetValue{gpu_clocks(900, 900), {}});
       request.gpus = {"GPU-0"};
       request.force = true;
       daemon.ask(request);
     }},
    {"The GPU is reset",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       ChangeRequest request = of(daemon, "root", Reset{});
       request.gpus = {"GPU-0"};
       daemon.ask(request);
     }},
    {"The daemon exits and restores everything",
     [](ControlFixture&, Daemon& daemon) {
       daemon.put("a", power_limit(300'000));
       daemon.stop();
     },
     {true, true}},
};

std::string joined(const std::vector<std::string>& writes, std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < to; ++i) text += (text.empty() ? "" : ", ") + writes[i];
  return text.empty() ? "nothing" : text;
}

struct ScenarioRun {
  ControlFixture fixture = ControlFixture::with_gpus(2);
  std::size_t commits = 0;
  std::size_t writes_before = 0;  // writes before the kill
};

// The number of a commit that never comes, so that the daemon is not killed.
constexpr int kNever = 1'000'000;

ScenarioRun run(const Scenario& scenario, int fatal_commit, bool it_counts, bool has_journal) {
  ScenarioRun ran;
  ran.fixture.has_journal = has_journal;
  ran.fixture.commits_left = fatal_commit;
  ran.fixture.fatal_commit_counts = it_counts;
  {
    Daemon daemon(ran.fixture, scenario.policy);
    daemon.start_driver_host();
    scenario.run(ran.fixture, daemon);
    daemon.settle();
  }
  ran.commits = static_cast<std::size_t>(kNever - ran.fixture.commits_left);
  ran.writes_before = ran.fixture.writes.size();
  ran.fixture.commits_left = -1;
  return ran;
}

// Expects the driver to have what the claims on the disk say, and all else to be unchanged.
void expect_consistent(const ControlFixture& fixture, const ControlFixture& untouched,
                       bool drifts) {
  for (const auto& [key, value] : fixture.values) {
    const auto held = fixture.disk.find(key);
    if (held == fixture.disk.end()) {
      EXPECT_TRUE(drifts || value == untouched.values.at(key)) << enum_name(key.kind);
      continue;
    }
    const ManagedSetting& managed = held->second;
    EXPECT_FALSE(managed.claims.empty());
    EXPECT_FALSE(managed.replaced);
    if (managed.status == SettingStatus::drifted) continue;
    EXPECT_EQ(value, effective_setting(managed)->value) << enum_name(key.kind);
  }
}

// Starts the daemon once more, and then lets every owner drop its claims.
std::string recover(ControlFixture& fixture, std::size_t writes_before, bool drifts) {
  const ControlFixture untouched = ControlFixture::with_gpus(2);
  std::string row;
  {
    Daemon next(fixture);
    next.loop.advance(seconds(120));
    next.start_driver_host();
    next.settle();
    row = joined(fixture.writes, writes_before, fixture.writes.size());
    expect_consistent(fixture, untouched, drifts);
    ChangeRequest everything = of(next, "root", Restore{});
    everything.force = true;
    next.ask(everything);
    next.settle();
  }
  EXPECT_TRUE(fixture.disk.empty());
  EXPECT_TRUE(drifts || fixture.values == untouched.values);
  return row;
}

std::string table_of(const Scenario& scenario, bool has_journal) {
  const bool drifts = std::string_view(scenario.name).starts_with("A change outside gpuyard");
  const ScenarioRun whole = run(scenario, kNever, false, has_journal);
  std::string context = fmt::format(
      "\n## {}\n\nNot killed: {}.\n\n| killed at commit | written before | written by the next "
      "start |\n|---|---|---|\n",
      scenario.name, joined(whole.fixture.writes, 0, whole.fixture.writes.size()));
  for (std::size_t commit = 0; commit < whole.commits; ++commit) {
    for (const bool counts : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, commit {}, {}", scenario.name, commit + 1, counts));
      ScenarioRun ran = run(scenario, static_cast<int>(commit), counts, has_journal);
      const std::string before = joined(ran.fixture.writes, 0, ran.writes_before);
      const std::string after = recover(ran.fixture, ran.writes_before, drifts);
      context += fmt::format("| {}, {} | {} | {} |\n", commit + 1, counts ? "done" : "not done",
                             before, after);
    }
  }
  return context;
}

TEST(Crash, KillAtEveryCommitRecoversAndRestoresBaseline) {
  std::string page =
      "# Control, killed at every commit\n\nWritten by `src/core/control/crash_test.cpp` "
      "(`GPUYARD_WRITE_GOLDEN=1 core_test`). In each row a daemon is killed at a commit to its "
      "disk, or at a record in its journal, before it is there (not done) or right after (done). "
      "The next daemon starts two "
      "minutes later with the same driver. The columns list every write that reached the driver of "
      "two GPUs, in order. In each case the test checks that the driver has the settings that the "
      "disk has, and, once all settings are withdrawn, its first values. Each scenario runs twice, "
      "without a "
      "journal and with one; where the tables differ, both are here.\n";
  for (const Scenario& scenario : kScenarios) {
    const std::string table = table_of(scenario, false);
    const std::string with_journal = table_of(scenario, true);
    page += table;
    // The commits come in another order.
    if (with_journal != table)
      page += "\nWith a journal:\n" + with_journal.substr(with_journal.find("\n| killed"));
  }
  expect_document("control_crashes.md", page);
}

}  // namespace
}  // namespace gpuyard::control
