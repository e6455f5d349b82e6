// Names of earlier versions mean what today's names mean. That no help shows them: help_test.cpp.
#include "cli/command_line_for_tests.h"

namespace gpuyard::cli {
namespace {

TEST(FormerNames, OfOptionsSetTheSameFields) {
  EXPECT_EQ(verb_of<RunVerb>({"run", "--gpus=2", "--", "x"}).wanted.request.gpus, 2);
  EXPECT_EQ(verb_of<RunVerb>({"run", "--summary", "~/s", "--", "x"}).report,
            verb_of<RunVerb>({"run", "--report", "~/s", "--", "x"}).report);
  EXPECT_EQ(verb_of<FreeVerb>({"free", "--gpus", "3"}).wanted.request.gpus, 3);
  EXPECT_EQ(
      verb_of<LeaseVerb>({"lease", "take", "--gpus", "2", "--ttl", "2h"}).wanted.request.ttl_s,
      7200.0);
  EXPECT_EQ(verb_of<LeaseVerb>({"lease", "renew", "--ttl=2h"}).wanted.request.ttl_s, 7200.0);
  EXPECT_EQ(verb_of<AlertsVerb>({"alerts", "silence", "--for", "1h", "--comment", "x"}).note, "x");
  EXPECT_EQ(verb_of<AlertsVerb>({"alerts", "history", "--gpus", "0", "--gpus", "1"}).gpus, "0,1");
  EXPECT_TRUE(verb_of<TopVerb>({"top", "--readonly"}).readonly);
  const auto clocks = verb_of<ControlVerb>({"clocks", "0", "--gpu", "1,2", "--memory", "3"});
  EXPECT_EQ(clocks.gpu_clocks, "1,2");
  EXPECT_EQ(clocks.memory_clocks, "3");
  EXPECT_TRUE(verb_of<ControlVerb>({"power", "0", "300", "--no-wait"}).detach);
  EXPECT_EQ(verb_of<TokenVerb>({"token", "revoke", "--all-of", "alice"}).user, "alice");
}

TEST(FormerNames, OfVerbsMeanTheSameVerbs) {
  EXPECT_EQ(verb_of<ConfigVerb>({"config", "print"}).action, ConfigVerb::Action::show);
  EXPECT_EQ(verb_of<FleetVerb>({"fleet", "who"}).action, FleetVerb::Action::users);
  EXPECT_EQ(verb_of<FleetVerb>({"fleet", "hang-up"}).action, FleetVerb::Action::disconnect);
  EXPECT_EQ(verb_of<SlurmVerb>({"slurm", "begin"}).action, SlurmVerb::Action::prolog);
  EXPECT_EQ(verb_of<SlurmVerb>({"slurm", "end", "--spool", "/s"}).action,
            SlurmVerb::Action::epilog);
}

TEST(ShortNames, MeanYesAndTheLimit) {
  EXPECT_TRUE(verb_of<ControlVerb>({"power", "0", "300", "-y"}).yes);
  EXPECT_EQ(verb_of<AuditVerb>({"audit", "-n", "7"}).limit, 7);
}

TEST(Host, HasThreeActions) {
  using enum HostVerb::Action;
  const auto added = verb_of<HostVerb>({"host", "add", "lab", "https://lab", "--pin", "p"});
  EXPECT_EQ(added.action, add);
  EXPECT_EQ(added.url, "https://lab");
  EXPECT_EQ(verb_of<HostVerb>({"host", "list"}).action, list);
  const auto removed = verb_of<HostVerb>({"host", "remove", "lab"});
  EXPECT_EQ(removed.action, remove);
  EXPECT_EQ(removed.name, "lab");
  for (const Words& wrong : {Words{"host"}, Words{"host", "remove"}, Words{"host", "add", "lab"}}) {
    EXPECT_EQ(end_of(wrong).code, 2);
  }
}

}  // namespace
}  // namespace gpuyard::cli
