#include "faces/fleet/view.h"

#include <gmock/gmock.h>

namespace gpuyard::fleet {
namespace {

using protocol::GpuUse;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Brief brief(const std::string& instance, const std::vector<std::string>& uuids) {
  Brief brief;
  brief.instance = instance;
  brief.version = "0.1.0";
  brief.driver_version = "535.104.05";
  brief.models = {{"NVIDIA H100", 81'559}};
  for (const std::string& uuid : uuids) {
    brief.gpus.index.push_back(static_cast<std::uint32_t>(brief.gpus.index.size()));
    brief.gpus.uuid.push_back(uuid);
    brief.gpus.model.push_back(0);
    brief.gpus.use.push_back(GpuUse::free);
    brief.gpus.power_w.emplace_back(100);
  }
  return brief;
}

template <class Answer>
HostReply<Answer> reply_from(const std::string& name, Answer answer) {
  return {{name, "ssh://" + name}, std::nullopt, std::chrono::milliseconds(5), std::move(answer)};
}
template <class Answer = Brief>
HostReply<Answer> timeout_from(const std::string& name) {
  return {{name, "ssh://" + name},
          Error{Errc::timed_out, "ssh://" + name + ": no answer"},
          seconds(3),
          {}};
}

TEST(Nodes, SilentHostIsListedWithProblem) {
  const auto view =
      nodes_of({reply_from("n1", brief("a", {"GPU-1", "GPU-2"})), timeout_from("n2")});
  ASSERT_EQ(view.nodes.size(), 1U);
  EXPECT_EQ(view.nodes[0].gpus, 2);
  EXPECT_EQ(view.nodes[0].free, 2);
  EXPECT_EQ(view.nodes[0].power_w, 200);
  EXPECT_EQ(view.nodes[0].utilization_percent, std::nullopt);  // not known is not 0
  ASSERT_EQ(view.hosts.size(), 2U);
  EXPECT_EQ(view.hosts[0].problem, std::nullopt);
  EXPECT_EQ(view.hosts[1].problem, "no answer");
}

TEST(Nodes, TwoNamesOfOneDaemonCountOnce) {
  const auto view =
      nodes_of({reply_from("n1", brief("a", {"GPU-1"})), reply_from("n1b", brief("a", {"GPU-1"}))});
  EXPECT_EQ(view.nodes.size(), 1U);
  EXPECT_EQ(view.hosts[1].same_as, "n1");
}

TEST(Gpus, OneThatTwoMachinesListIsShownOnce) {
  const auto view = gpus_of(
      {reply_from("n1", brief("a", {"GPU-1"})), reply_from("n2", brief("b", {"GPU-2", "GPU-1"}))});
  ASSERT_EQ(view.gpus.size(), 2U);
  EXPECT_THAT(view.gpus[0].also_on, ElementsAre("n2"));
}

TEST(Gpus, EmptyUuidsStaySeparate) {
  const HostReplies<Brief> all{reply_from("n1", brief("a", {"", "", "GPU-1"})),
                               reply_from("n2", brief("b", {""}))};
  EXPECT_EQ(gpus_of(all).gpus.size(), 4U);
  for (const FleetGpu& gpu : gpus_of(all).gpus) EXPECT_THAT(gpu.also_on, IsEmpty());
}

TEST(Nodes, GpuOfTwoMachinesIsCountedOnce) {
  const auto view = nodes_of({reply_from("n1", brief("a", {"GPU-1", "GPU-2"})),
                              reply_from("n2", brief("b", {"GPU-1", "GPU-2"}))});
  EXPECT_EQ(view.nodes.size(), 2U);
  EXPECT_EQ(view.gpus, 2);
  EXPECT_EQ(view.free, 2);
  EXPECT_EQ(view.power_w, 200);
}

TEST(Nodes, NumbersThatCannotBeAddedAreLeftOut) {
  Brief broken = brief("a", {"GPU-1", "GPU-2"});
  broken.gpus.power_w = {INT64_MAX, INT64_MAX};
  broken.gpus.utilization_percent = {INT64_MIN, INT64_MIN};
  EXPECT_EQ(nodes_of({reply_from("n1", broken)}).nodes[0].power_w, INT64_MAX);
}

TEST(Problems, LongProxyPageIsTruncated) {
  auto one = timeout_from("n1");
  one.problem->message = std::string(1'000'000, 'x');
  EXPECT_LT(nodes_of({one}).hosts[0].problem->size(), 500U);
}

TEST(Gpus, ShortColumnsAreUnknown) {
  Brief odd = brief("a", {"GPU-1", "GPU-2"});
  odd.gpus.use.clear();
  odd.gpus.model = {7};
  const auto view = gpus_of({reply_from("n1", odd)});
  ASSERT_EQ(view.gpus.size(), 2U);
  EXPECT_EQ(view.gpus[0].name, "");
  EXPECT_EQ(view.gpus[1].temperature_c, std::nullopt);
}

TEST(Users, GpusOfAllHostsAreSummed) {
  Brief one = brief("a", {"GPU-1", "GPU-2"});
  one.gpus.use = {GpuUse::leased, GpuUse::outside};
  one.gpus.user = {"alice", "bob"};
  Brief other = brief("b", {"GPU-3", "GPU-4"});
  other.gpus.use = {GpuUse::draining, GpuUse::withheld};
  other.gpus.user = {"alice", std::nullopt};
  const auto view = users_of(gpus_of({reply_from("n1", one), reply_from("n2", other)}));
  ASSERT_EQ(view.users.size(), 2U);
  EXPECT_EQ(view.users[0].user, "alice");
  EXPECT_EQ(view.users[0].gpus, 2);
  EXPECT_EQ(view.users[0].places.size(), 2U);
  EXPECT_EQ(view.users[1].user, "bob");
  EXPECT_EQ(view.users[1].outside, 1);
}

using Offer = ReplyWithBrief<protocol::FreeGpus>;

HostReply<Offer> offer(const std::string& name, int free, std::int64_t celsius = 40,
                       bool linked = false, Health health = Health::healthy) {
  Offer answer{brief(name, {}), {}};
  answer.answer.enough = free >= 2;
  answer.answer.linked = linked;
  for (int i = 0; i < free; ++i) {
    answer.answer.gpus.push_back({static_cast<std::uint32_t>(i), "GPU-" + name + std::to_string(i),
                                  "NVIDIA H100", 1, celsius, health, i < 2});
  }
  return reply_from(name, answer);
}

std::vector<std::string> order_of(const HostReplies<Offer>& all) {
  std::vector<std::string> names;
  for (const FleetOffer& one : offers_of(all).offers) names.push_back(one.host);
  return names;
}

TEST(Offers, AreLinkedThenWellThenTightThenCool) {
  EXPECT_THAT(order_of({offer("n1", 2, 80), offer("n2", 2, 40), offer("n3", 8, 30),
                        offer("n4", 2, 30, false, Health::degraded), offer("n5", 8, 90, true),
                        offer("n6", 1)}),
              ElementsAre("n5", "n2", "n1", "n3", "n4"));
}

TEST(Offers, BetterOfferWinsForGpuOnTwoMachines) {
  auto twin = offer("n2", 2, 90);
  twin.answer.answer.gpus = offer("n1", 2).answer.answer.gpus;
  EXPECT_THAT(order_of({twin, offer("n1", 2)}), ElementsAre("n1"));
}

TEST(Usage, OfOneUserIsAddedUp) {
  ReplyWithBrief<protocol::Usage> one{brief("a", {}), {}};
  one.answer.by = "user";
  protocol::UsageRow row;
  row.key = "alice";
  row.gpu_hours = 3;
  row.energy_kwh = 1.5;
  row.mean_utilization_percent = 90;
  row.leases = 2;
  one.answer.rows = {row};
  auto other = one;
  other.brief.instance = "b";
  other.answer.rows[0].gpu_hours = 1;
  other.answer.rows[0].mean_utilization_percent = 50;
  const auto view = usage_of({reply_from("n1", one), reply_from("n2", other)}, false);
  ASSERT_EQ(view.usage.rows.size(), 1U);
  EXPECT_EQ(view.usage.rows[0].gpu_hours, 4);
  EXPECT_EQ(view.usage.rows[0].energy_kwh, 3.0);
  EXPECT_EQ(view.usage.rows[0].mean_utilization_percent, 80);
  EXPECT_EQ(view.usage.rows[0].leases, 4);
  const auto by_host = usage_of({reply_from("n1", one), reply_from("n2", other)}, true);
  ASSERT_EQ(by_host.usage.rows.size(), 2U);
  EXPECT_EQ(by_host.usage.rows[0].key, "n1");
}

using Examination = ReplyWithBrief<DoctorReply>;

HostReply<Examination> examined(const std::string& name, Brief brief,
                                const std::string& now = "2026-01-01T00:00:10.500Z") {
  DoctorReply all;
  all.readiness.ready = true;
  all.readiness.now = now;
  all.requested_at = *from_rfc3339("2026-01-01T00:00:10Z");
  all.replied_at = *from_rfc3339("2026-01-01T00:00:11Z");
  return reply_from(name, Examination{std::move(brief), all});
}

// A machine of Slurm's with the key of this machine, where alice has UID 1000.
HostReply<Examination> slurm_machine(const std::string& name) {
  auto machine = examined(name, brief("instance of " + name, {}));
  machine.answer.answer.slurm_version = std::optional<std::string>("22.05.8");
  machine.answer.answer.login = {Login{"alice", 1000}, MungeKey::same, true};
  return machine;
}

const FleetFinding& only_finding(const FleetDiagnosis& view) {
  static const FleetFinding kNone;
  EXPECT_EQ(view.findings.size(), 1U);
  return view.findings.empty() ? kNone : view.findings.front();
}

std::vector<std::string> unknown_facts(const HostReplies<Examination>& all,
                                       const std::string& what) {
  std::vector<std::string> texts;
  for (const FleetUnknown& one : diagnosis_of(all).unknown) {
    if (one.what == what) texts.push_back(one.text);
  }
  return texts;
}

std::vector<std::string> findings(const HostReplies<Examination>& all) {
  std::vector<std::string> texts;
  for (const FleetFinding& one : diagnosis_of(all).findings) texts.push_back(one.text);
  return texts;
}

TEST(Diagnosis, OfMachinesThatAreAlikeIsHealthy) {
  const auto view =
      diagnosis_of({examined("n1", brief("a", {"GPU-1"})), examined("n2", brief("b", {"GPU-2"}))});
  EXPECT_TRUE(view.healthy);
  EXPECT_THAT(view.findings, IsEmpty());
}

TEST(Diagnosis, OutlierHostIsNamed) {
  Brief odd = brief("c", {"GPU-3"});
  odd.version = "0.0.9";
  odd.driver_version = "525.60.13";
  odd.configuration = {{"lease", "1"}};
  EXPECT_THAT(
      findings({examined("n1", brief("a", {"GPU-1"})), examined("n2", brief("b", {"GPU-2"})),
                examined("n3", odd)}),
      ElementsAre(
          "gpuyard: 0.1.0 on 2 machines, 0.0.9 on n3",
          "the driver: 535.104.05 on 2 machines, 525.60.13 on n3; a program built for a newer CUDA "
          "may fail on the older driver; on n3: `sudo apt-get install "
          "'nvidia-driver=535.104.05*'`, then reboot",
          "[lease] differs between 2 machines and n3; compare `gpuyard config show` on each "
          "machine"));
}

TEST(Diagnosis, ClockSkewBeyondReplyTimeIsReported) {
  for (const char* near : {"2026-01-01T00:00:08.000Z", "2026-01-01T00:00:13.000Z"}) {
    EXPECT_THAT(findings({examined("n1", brief("a", {}), near)}), IsEmpty()) << near;
  }
  EXPECT_THAT(findings({examined("n1", brief("a", {}), "2026-01-01T00:01:11.000Z")}),
              ElementsAre(HasSubstr("n1: its clock is 60 s ahead of")));
  EXPECT_THAT(findings({examined("n1", brief("a", {}), "2025-12-31T23:59:10.000Z")}),
              ElementsAre(HasSubstr("n1: its clock is 60 s behind")));
}

TEST(Diagnosis, ClockOffsetBeyondMungeLifetimeIsError) {
  const auto level_at = [](const char* now, bool with_munge) {
    auto machine = slurm_machine("n1");
    if (!with_munge) {
      machine.answer.answer.slurm_version = std::optional<std::string>();
      machine.answer.answer.login.has_munge = false;
    }
    machine.answer.answer.readiness.now = now;
    return only_finding(diagnosis_of({machine})).level;
  };
  EXPECT_EQ(level_at("2026-01-01T00:01:10.900Z", true), AlertLevel::info);  // 59 s ahead
  EXPECT_EQ(level_at("2026-01-01T00:01:11.500Z", true), AlertLevel::warning);
  EXPECT_EQ(level_at("2026-01-01T00:05:10.900Z", true), AlertLevel::warning);
  EXPECT_EQ(level_at("2026-01-01T00:05:11.500Z", true), AlertLevel::error);
  EXPECT_EQ(level_at("2025-12-31T23:55:09.000Z", true), AlertLevel::error);
  EXPECT_EQ(level_at("2026-01-01T01:00:00.000Z", false), AlertLevel::warning);
}

TEST(Diagnosis, ClockIsUnknownWithoutATime) {
  EXPECT_THAT(unknown_facts({examined("n1", brief("a", {}), "")}, "clock"),
              ElementsAre("the clock on n1: its daemon does not report the time"));
}

TEST(Diagnosis, SlurmMachinesThatAgreeHaveNoUnknownFacts) {
  const auto view = diagnosis_of({slurm_machine("n1"), slurm_machine("n2")});
  EXPECT_TRUE(view.healthy);
  EXPECT_THAT(view.unknown, IsEmpty());
}

TEST(Diagnosis, DifferentUidsOfOneUserAreReported) {
  auto odd = slurm_machine("n3");
  odd.answer.answer.login.login = Login{"alice", 1007};
  const auto view = diagnosis_of({slurm_machine("n1"), slurm_machine("n2"), odd});
  EXPECT_FALSE(view.healthy);
  EXPECT_EQ(only_finding(view).what, "uid");
  EXPECT_THAT(only_finding(view).hosts, ElementsAre("n3"));
  EXPECT_EQ(only_finding(view).text,
            "the UID of alice: 1000 on 2 machines, 1007 on n3; Slurm and shared disks know a user "
            "by the UID; on n3, once no process of alice runs: `sudo usermod -u 1000 alice`");
}

TEST(Diagnosis, UidIsUnknownWithoutALoginToCompare) {
  auto by_https = slurm_machine("n3");
  by_https.answer.answer.login.login = Error{Errc::unavailable, "reached by https"};
  auto other_user = slurm_machine("n4");
  other_user.answer.answer.login.login = Login{"bob", 1007};
  const HostReplies<Examination> all{slurm_machine("n1"), slurm_machine("n2"), by_https,
                                     other_user};
  EXPECT_THAT(findings(all), IsEmpty());
  EXPECT_THAT(unknown_facts(all, "uid"),
              ElementsAre("your UID on n4: no other machine has a login as bob to compare it with",
                          "your UID on n3: reached by https"));
}

TEST(Diagnosis, DifferentVersionsOfSlurmAreReported) {
  auto odd = slurm_machine("n3");
  odd.answer.answer.slurm_version = std::optional<std::string>("23.11.4");
  EXPECT_THAT(findings({slurm_machine("n1"), slurm_machine("n2"), odd}),
              ElementsAre(AllOf(HasSubstr("Slurm: 22.05.8 on 2 machines, 23.11.4 on n3; "),
                                HasSubstr("; on n3: `sudo apt-get install 'slurmd=22.05.8*'`"))));
}

TEST(Diagnosis, SlurmVersionIsUnknownFromOlderDaemon) {
  auto older = slurm_machine("n3");
  older.answer.answer.slurm_version = Error{Errc::unsupported, "its gpuyard is too old"};
  auto without = slurm_machine("n4");
  without.answer.answer.slurm_version = std::optional<std::string>();
  EXPECT_THAT(unknown_facts({slurm_machine("n1"), older, without}, "slurm"),
              ElementsAre("Slurm's version on n3: its gpuyard is too old",
                          HasSubstr("Slurm's version on n4: no slurmd was found")));
  EXPECT_THAT(unknown_facts({without}, "slurm"), IsEmpty());  // no machine has Slurm
}

TEST(Diagnosis, DriverVersionIsUnknownWithoutADriver) {
  Brief without = brief("c", {});
  without.driver_version = std::nullopt;
  without.driver_error = "NVML Shared Library Not Found";
  const HostReplies<Examination> all{examined("n1", brief("a", {})), examined("n2", without)};
  EXPECT_THAT(findings(all), IsEmpty());
  EXPECT_THAT(unknown_facts(all, "driver"),
              ElementsAre("the driver's version on n2: NVML Shared Library Not Found"));
}

TEST(Diagnosis, DifferentMungeKeyIsErrorWithCopyCommand) {
  auto odd = slurm_machine("n3");
  odd.host.url = "ssh://alice@n3:2222";
  odd.answer.answer.login.munge_key = MungeKey::different;
  const auto view = diagnosis_of({slurm_machine("n1"), odd});
  EXPECT_EQ(only_finding(view).what, "munge_key");
  EXPECT_EQ(only_finding(view).level, AlertLevel::error);
  EXPECT_EQ(only_finding(view).text,
            "n3: its munge key differs from this machine's; Slurm refuses all messages between "
            "them; `sudo cat /etc/munge/munge.key | ssh -p 2222 root@n3 'cat "
            ">/etc/munge/munge.key && systemctl restart munge'`");
}

TEST(Diagnosis, LocalMungeKeyIsReportedIfAllOthersDiffer) {
  auto one = slurm_machine("n1");
  auto other = slurm_machine("n2");
  one.answer.answer.login.munge_key = MungeKey::different;
  other.answer.answer.login.munge_key = MungeKey::different;
  const auto view = diagnosis_of({one, other});
  EXPECT_THAT(only_finding(view).hosts, ElementsAre("n1", "n2"));
  EXPECT_THAT(
      only_finding(view).text,
      AllOf(HasSubstr("this machine's munge key differs from those of n1, n2; "),
            HasSubstr("on this machine: `ssh root@n1 cat /etc/munge/munge.key | sudo tee ")));
}

TEST(Diagnosis, UnknownFactsAreGroupedByReason) {
  auto one = slurm_machine("n1");
  auto other = slurm_machine("n2");
  const Error reason{Errc::unavailable, "munge is not installed on this machine"};
  one.answer.answer.login.munge_key = reason;
  other.answer.answer.login.munge_key = reason;
  const auto view = diagnosis_of({one, other});
  EXPECT_TRUE(view.healthy);
  EXPECT_THAT(
      unknown_facts({one, other}, "munge_key"),
      ElementsAre("the munge key on all 2 machines: munge is not installed on this machine"));
  EXPECT_THAT(unknown_facts({one, slurm_machine("n2")}, "munge_key"),
              ElementsAre("the munge key on n1: munge is not installed on this machine"));
}

TEST(Diagnosis, MungeKeyIsReportedOnlyWithMungeOrSlurm) {
  auto one = slurm_machine("n1");
  DoctorReply& reply = one.answer.answer;
  reply.login.munge_key = Error{Errc::unavailable, "munge is not installed on this machine"};
  reply.login.has_munge = false;
  EXPECT_THAT(unknown_facts({one}, "munge_key"), SizeIs(1));
  reply.slurm_version = std::optional<std::string>();
  EXPECT_THAT(unknown_facts({one}, "munge_key"), IsEmpty());
  reply.login.has_munge = true;
  EXPECT_THAT(unknown_facts({one}, "munge_key"), SizeIs(1));
}

TEST(Diagnosis, SilentUnreadyAndDuplicateHostsAreReported) {
  auto unready = examined("n3", brief("c", {"GPU-1"}));
  unready.answer.answer.readiness.ready = false;
  unready.answer.answer.readiness.reason = "NVML Shared Library Not Found";
  EXPECT_THAT(findings({examined("n1", brief("a", {"GPU-1"})), timeout_from<Examination>("n2"),
                        unready, examined("n1b", brief("a", {"GPU-1"}))}),
              ElementsAre("n2: no answer", HasSubstr("n1b is the same daemon as n1"),
                          "n3: NVML Shared Library Not Found",
                          HasSubstr("GPU-1 is listed by n1 and by n3")));
}

}  // namespace
}  // namespace gpuyard::fleet
