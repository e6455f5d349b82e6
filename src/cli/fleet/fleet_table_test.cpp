#include "cli/fleet/fleet_table.h"

#include <gmock/gmock.h>

#include "cli/screen/fitted_table.h"

namespace gpuyard::cli {
namespace {

using protocol::GpuUse;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Briefs = fleet::HostReplies<fleet::Brief>;

fleet::Brief brief(const std::string& instance, std::size_t gpus) {
  fleet::Brief brief;
  brief.instance = instance;
  brief.models = {{"NVIDIA H100 80GB HBM3", 81'559}};
  for (std::size_t i = 0; i < gpus; ++i) {
    brief.gpus.index.push_back(static_cast<std::uint32_t>(i));
    brief.gpus.uuid.push_back("GPU-" + instance + std::to_string(i));
    brief.gpus.model.push_back(0);
    brief.gpus.use.push_back(i == 0 ? GpuUse::leased : GpuUse::free);
    brief.gpus.user.push_back(i == 0 ? std::optional<std::string>("alice") : std::nullopt);
    brief.gpus.utilization_percent.emplace_back(i == 0 ? 90 : 0);
    brief.gpus.temperature_c.emplace_back(40 + static_cast<std::int64_t>(i));
    brief.gpus.power_w.emplace_back(100);
  }
  return brief;
}

fleet::HostReply<fleet::Brief> reply_of(const std::string& name, fleet::Brief brief) {
  return {{name, "ssh://" + name}, std::nullopt, std::chrono::milliseconds(5), std::move(brief)};
}
fleet::HostReply<fleet::Brief> silent(const std::string& name) {
  return {{name, "ssh://" + name},
          Error{Errc::timed_out, "no answer in time"},
          std::chrono::seconds(3),
          {}};
}

const Screen kFile;  // no terminal, no limit

TEST(FleetTables, UnreachableAndDuplicateHostsHaveRows) {
  const auto view = fleet::nodes_of(
      Briefs{reply_of("n1", brief("a", 2)), silent("n2"), reply_of("n1b", brief("a", 2))});
  const std::string text = nodes_text(view, kFile);
  EXPECT_THAT(text, AllOf(HasSubstr("\nn1          2     1  45 %"), HasSubstr("\nn2 "),
                          HasSubstr("unreachable\n"), HasSubstr("same daemon as n1\n")));
  EXPECT_THAT(text, HasSubstr("1 machine, 2 GPUs, 1 free, 0.2 kW; 1 unreachable\n"));
  EXPECT_EQ(problems_text(view), "n2: no answer in time\nn1b: same daemon as n1; counted once\n");
}

TEST(FleetTables, KeepNamesAndRemarksOnANarrowScreen) {
  fleet::Brief sick = brief("a", 2);
  sick.gpus.health = {Health::unhealthy, Health::healthy};
  const std::string text =
      nodes_text(fleet::nodes_of(Briefs{reply_of("n1", sick)}), {.terminal = true, .columns = 50});
  EXPECT_THAT(text, AllOf(HasSubstr("n1"), HasSubstr("1 degraded"), Not(HasSubstr("NAME"))));
}

TEST(FleetTables, OfUsersSayWhere) {
  const auto gpus =
      fleet::gpus_of(Briefs{reply_of("n1", brief("a", 2)), reply_of("n2", brief("b", 1))});
  EXPECT_THAT(users_text(fleet::users_of(gpus), kFile),
              HasSubstr("alice     2  90 %         0  n1:0 n2:0"));
}

TEST(FleetTables, EmptyListsPrintSentenceOrBlank) {
  EXPECT_EQ(users_text({}, kFile), "No GPU is in use.\n");
  EXPECT_EQ(offers_text({}, kFile), "");
  EXPECT_EQ(claims_text(fleet::FleetQueue{}, {}, kFile), "No claims are waiting.\n");
  EXPECT_EQ(firing_text(fleet::FleetAlerts{}, {}, kFile), "No alerts are firing.\n");
}

class FleetTop : public testing::Test {
 protected:
  static constexpr TimePoint kNow{std::chrono::hours(1)};

  std::vector<fleet::HostStatus> words(std::size_t machines) {
    std::vector<fleet::HostStatus> all;
    for (std::size_t i = 0; i < machines; ++i) {
      const std::string name = "n" + std::to_string(i);
      all.push_back({reply_of(name, brief(name, 1 + i % 3)), kNow});
    }
    return all;
  }
  std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

  FleetViewState view_state_;
  Screen screen_{.terminal = true, .columns = 120, .rows = 10};
};

TEST_F(FleetTop, FitsTheScreenHoweverManyMachinesThereAre) {
  for (const std::size_t machines : {0U, 1U, 5U, 100U}) {
    for (const std::size_t rows : {3U, 10U, 24U}) {
      screen_.rows = rows;
      EXPECT_LE(lines(fleet_screen(words(machines), view_state_, kNow, screen_)),
                std::max(rows, 4UL));
    }
  }
}

TEST_F(FleetTop, ScrollsToTheLastLineAndNoFurther) {
  for (int i = 0; i < 500; ++i) handle_key(view_state_, "j", 6);
  const std::string text = fleet_screen(words(100), view_state_, kNow, screen_);
  EXPECT_THAT(text, HasSubstr("100 machines"));
  for (int i = 0; i < 500; ++i) handle_key(view_state_, "k", 6);
  EXPECT_THAT(fleet_screen(words(100), view_state_, kNow, screen_), HasSubstr("\nn0 "));
}

TEST_F(FleetTop, UnreachableHostIsNamedWithLastReply) {
  auto all = words(2);
  all[1].reply.problem = Error{Errc::timed_out, "no answer in time"};
  all[1].replied_at = kNow - std::chrono::seconds(12);
  const std::string text = fleet_screen(all, view_state_, kNow, screen_);
  EXPECT_THAT(text, HasSubstr("n1: last answer 12s ago: no answer in time"));
  EXPECT_THAT(text, HasSubstr("\nn1          2     1"));
}

TEST_F(FleetTop, SortKeyOrdersByFreeGpus) {
  handle_key(view_state_, "s", 6);  // free first
  const std::string text = fleet_screen(words(3), view_state_, kNow, screen_);
  EXPECT_LT(text.find("\nn2 "), text.find("\nn0 "));
}

TEST_F(FleetTop, KeysSwitchPaneAndQuit) {
  EXPECT_TRUE(handle_key(view_state_, "\t", 6));
  EXPECT_EQ(view_state_.pane, FleetViewState::Pane::gpus);
  EXPECT_THAT(fleet_screen(words(2), view_state_, kNow, screen_),
              StartsWith("gpuyard fleet  GPUs"));
  EXPECT_TRUE(handle_key(view_state_, "x", 6));
  EXPECT_TRUE(handle_key(view_state_, "\x1b[5~", 6));
  EXPECT_FALSE(handle_key(view_state_, "q", 6));
}

}  // namespace
}  // namespace gpuyard::cli
