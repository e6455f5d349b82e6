#include "io/store/lease_db.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop_for_tests.h"
#include "base/manual_worker_for_tests.h"
#include "base/scratch_directory_for_tests.h"
#include "io/store/migrations.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

using lease::Binding;
using lease::Cordon;
using lease::EndReason;
using lease::Lease;
using lease::LeaseState;
using lease::LeaseStorage;
using lease::SavedLeases;
using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Lease held(const std::string& id, lease::Ticket ticket, const DeviceId& gpu) {
  Lease lease;
  lease.id = id;
  lease.ticket = ticket;
  lease.fence = ticket;
  lease.state = LeaseState::held;
  lease.gpus = {gpu};
  return lease;
}

Lease ended(const std::string& id, lease::Ticket ticket, WallTime when) {
  Lease lease = held(id, ticket, "GPU-0");
  lease.state = LeaseState::ended;
  lease.end_reason = EndReason::released;
  lease.ended_wall = when;
  return lease;
}

class LeaseDbTest : public ::testing::Test {
 protected:
  Result<SavedLeases> load() {
    std::optional<Result<SavedLeases>> loaded;
    EXPECT_TRUE(db_->load(committed(), [&](Result<SavedLeases> all) { loaded = std::move(all); }));
    worker_.run_all();
    return loaded.value_or(Error{});
  }
  Result<void> save(const lease::LeaseTransaction& entry) {
    std::optional<Result<void>> saved;
    EXPECT_TRUE(db_->save(shared(entry), [&](const Result<void>& done) { saved = done; }));
    worker_.run_all();
    if (saved && *saved) {
      for (const Lease& lease : entry.leases) committed_.insert_or_assign(lease.id, lease);
    }
    return saved.value_or(Error{});
  }
  static std::shared_ptr<const lease::LeaseTransaction> shared(lease::LeaseTransaction entry) {
    return std::make_shared<const lease::LeaseTransaction>(std::move(entry));
  }
  // The leases that were reported as committed and have not ended.
  std::vector<Lease> committed() const {
    std::vector<Lease> all;
    for (const auto& [id, lease] : committed_) {
      if (lease.state != LeaseState::ended) all.push_back(lease);
    }
    return all;
  }
  static lease::LeaseTransaction entry(std::vector<Lease> leases) {
    lease::LeaseTransaction entry;
    entry.leases.assign(leases.begin(), leases.end());
    return entry;
  }
  void execute(const std::string& statements) {
    ASSERT_TRUE(store_->run(
        Requester::daemon(),
        [statements](Database& database) { return database.execute(statements.c_str()); },
        [](const Result<void>& done) { ASSERT_TRUE(done) << done.error().message; }));
    worker_.run_all();
  }
  void restart() {
    committed_.clear();
    db_.reset();
    store_.reset();
    store_ = std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations);
    db_ = std::make_unique<LeaseDb>(loop_, *store_);
  }
  std::string path() const { return directory_.in("state.db"); }

  ScratchDirectory directory_;
  CapturedLog log_;
  ManualWorker worker_;
  ManualLoop loop_;
  std::unique_ptr<StateStore> store_ =
      std::make_unique<StateStore>(worker_, worker_, path(), kStateMigrations);
  std::unique_ptr<LeaseDb> db_ = std::make_unique<LeaseDb>(loop_, *store_);
  std::map<std::string, Lease> committed_;  // as a daemon has them in memory
};

// Generates any values, however little sense they make, but ended leases ended just now.
namespace any {

template <class T>
T one() {
  return *rc::gen::arbitrary<T>();
}
TimePoint point() {
  return TimePoint(Duration(one<std::int64_t>()));
}
WallTime wall() {
  return WallTime(milliseconds(one<std::int64_t>()));
}
template <class Make>
auto perhaps(Make make) -> std::optional<decltype(make())> {
  return one<bool>() ? std::optional(make()) : std::nullopt;
}
std::uint64_t counted() {
  return one<std::uint64_t>() >> 1U;
}
// GPU ids are UTF-8, of any length; what users write is any bytes at all.
std::vector<DeviceId> gpus() {
  return *rc::gen::container<std::vector<DeviceId>>(
      rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
}
Duration span() {
  return Duration(one<std::int64_t>());
}

lease::LeaseSpec wish() {
  lease::LeaseSpec spec;
  spec.gpus = one<unsigned>();
  spec.min_free_bytes = one<std::int64_t>();
  spec.model = one<std::string>();
  spec.allowed_gpus = gpus();
  spec.max_hold_time = perhaps(span);
  spec.wait_timeout = perhaps(span);
  spec.binding = *rc::gen::element(Binding::run, Binding::process, Binding::detached);
  spec.ttl = span();
  spec.note = one<std::string>();
  return spec;
}

Lease lease(std::string id, WallTime now) {
  Lease lease;
  lease.id = std::move(id);
  lease.uid = one<std::uint32_t>();
  lease.spec = wish();
  lease.state = *rc::gen::element(LeaseState::waiting, LeaseState::held, LeaseState::draining,
                                  LeaseState::ended);
  lease.ticket = counted();
  lease.fence = counted();
  lease.overtakes = one<unsigned>();
  lease.overdue = one<bool>();
  lease.gpus = gpus();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    lease.processes.push_back({one<std::uint32_t>(), point()});
  }
  lease.boot_id = one<std::string>();
  lease.requested_at = point();
  lease.granted_at = point();
  lease.expires_at = perhaps(point);
  lease.requested_wall = wall();
  lease.granted_wall = perhaps(wall);
  lease.drain_started_wall = perhaps(wall);
  lease.ended_wall = lease.state == LeaseState::ended ? now : perhaps(wall);
  lease.end_reason = perhaps([] {
    return *rc::gen::element(EndReason::released, EndReason::exited, EndReason::expired,
                             EndReason::cancelled, EndReason::gave_up, EndReason::none_free,
                             EndReason::unreachable, EndReason::forced, EndReason::node_reboot);
  });
  lease.detail = one<std::string>();
  lease.pod = one<std::string>();
  return lease;
}

}  // namespace any

TEST(LeaseDb, LeasesFromBeforePodsAreStillThere) {
  const ScratchDirectory directory;
  const auto commit = [&](StateDb::Migrations layout, const StateDb::Work& work) {
    StateDb file(directory.in("state.db"), layout);
    const auto done = file.commit(std::span(&work, 1));
    EXPECT_TRUE(done) << done.error().message;
  };
  constexpr std::size_t kBeforePods = 11;
  commit(std::span(kStateMigrations).first(kBeforePods), [](Database& database) {
    return database.execute(
        "INSERT INTO leases "
        "VALUES('slurm-17-019ab12cd34',1000,'held',NULL,'',1,1,0,0,'[\"GPU-0\"]',"
        "'[]','boot-1',0,0,NULL,0,0,NULL,NULL,1,0,'','[]',NULL,NULL,'job',0,'train')");
  });
  commit(kStateMigrations, [](Database&) { return Result<void>(); });
  std::vector<Lease> leases;
  commit(kStateMigrations, [&](Database& database) -> Result<void> {  // one that is checked
    auto loaded = load_leases(database);
    if (!loaded) return std::move(loaded).error();
    leases = std::move(loaded->saved.leases);
    return {};
  });
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases[0].pod, "");
  EXPECT_EQ(job_of(leases[0]), "slurm-17");
}

RC_GTEST_FIXTURE_PROP(LeaseDbTest, AnyLeaseComesBackExactly, ()) {
  RC_ASSERT(load().ok());
  std::map<std::string, Lease> model;
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
    const std::string id = *rc::gen::element<std::string>("a", "b", "c");
    const Lease lease = any::lease(id, loop_.wall());
    model[id] = lease;
    RC_ASSERT(save(entry({lease})).ok());
  }
  restart();
  const auto loaded = load();
  RC_ASSERT(loaded.ok());
  RC_ASSERT(loaded->leases.size() == model.size());
  for (const Lease& lease : loaded->leases) {
    RC_ASSERT(model.at(lease.id) == lease);
    RC_ASSERT(loaded->last_ticket >= lease.ticket && loaded->last_fence >= lease.fence);
  }
}

TEST_F(LeaseDbTest, LeasesLoadInTicketOrder) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("c", 1, "GPU-1"), held("a", 3, "GPU-3"), held("b", 2, "GPU-2")})));
  EXPECT_EQ(load()->leases,
            (std::vector{held("c", 1, "GPU-1"), held("b", 2, "GPU-2"), held("a", 3, "GPU-3")}));
}

TEST_F(LeaseDbTest, CordonsPersistUntilRemoved) {
  ASSERT_TRUE(load());
  const Cordon first{"GPU-0", "uid 0", "smells of smoke", WallTime(milliseconds(5))};
  const Cordon second{"GPU-1", "uid 0", "", WallTime(milliseconds(6))};
  lease::LeaseTransaction entry;
  entry.cordoned = {second, first};
  ASSERT_TRUE(save(entry));
  EXPECT_EQ(load()->cordons, (std::vector{first, second}));
  lease::LeaseTransaction off;
  off.uncordoned = {"GPU-0", "GPU-7"};
  ASSERT_TRUE(save(off));
  EXPECT_EQ(load()->cordons, std::vector{second});
}

TEST_F(LeaseDbTest, CountersNeverGoBack) {
  ASSERT_TRUE(load());
  lease::LeaseTransaction counted;
  counted.last_ticket = 9;
  counted.last_fence = 7;
  ASSERT_TRUE(save(counted));
  ASSERT_TRUE(save(lease::LeaseTransaction{}));
  counted.last_ticket = 8;
  ASSERT_TRUE(save(counted));
  restart();
  const auto kept = load();
  EXPECT_EQ(kept->last_ticket, 9U);
  EXPECT_EQ(kept->last_fence, 7U);
}

TEST_F(LeaseDbTest, PrunedLeaseIsRemovedAndIdReusable) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({ended("over", 1, loop_.wall()), held("goes on", 2, "GPU-1")})));
  lease::LeaseTransaction forgets;
  forgets.removed = {"over", "never was"};
  ASSERT_TRUE(save(forgets));
  EXPECT_EQ(load()->leases, std::vector{held("goes on", 2, "GPU-1")});
  lease::LeaseTransaction again = entry({held("over", 3, "GPU-2")});
  again.removed = {"over"};
  ASSERT_TRUE(save(again));
  EXPECT_EQ(load()->leases.size(), 2U) << "a new lease with the id of one that was forgotten";
}

TEST_F(LeaseDbTest, UnreadableLeaseFreesNoGpu) {
  ASSERT_TRUE(load());
  for (const char* const nonsense :
       {"state = 'lent'", "state = 'he1d'", "binding = 'married'", "ending = 'bored'", "uid = -1",
        "uid = 4294967296", "passed = 4294967296", "overdue = 2", "processes = '[[1]]'",
        "processes = '[[-1, 5]]'", "wanted_among = ''"}) {
    SCOPED_TRACE(nonsense);
    ASSERT_TRUE(save(entry({held("a", 1, "GPU-0"), held("b", 2, "GPU-1")})));
    execute(std::string("UPDATE leases SET ") + nonsense + " WHERE id = 'a'");
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_THAT(loaded->leases, ElementsAre(held("b", 2, "GPU-1")));
    ASSERT_EQ(loaded->cordons.size(), 1U);
    EXPECT_EQ(loaded->cordons[0].gpu, "GPU-0");
    EXPECT_EQ(loaded->cordons[0].by, "gpuyard");
    const std::string column(nonsense, std::strcspn(nonsense, " "));
    EXPECT_THAT(loaded->cordons[0].reason,
                HasSubstr("a lease of this GPU could not be read (a: column " + column + ": "));
    EXPECT_EQ(loaded->last_fence, 2U);
    restart();
    EXPECT_EQ(load()->cordons.size(), 1U) << "after a restart, too";
    execute("DELETE FROM lease_cordons; DELETE FROM unreadable_rows");
  }
}

TEST_F(LeaseDbTest, UnreadableLeaseOfUnknownGpusWithholdsAllGpus) {
  ASSERT_TRUE(load());
  for (const char* const nonsense : {"gpus = 'GPU-0'", "gpus = '[1]'", "gpus = '[]', uid = -1"}) {
    SCOPED_TRACE(nonsense);
    ASSERT_TRUE(save(entry({held("a", 1, "GPU-0")})));
    execute(std::string("UPDATE leases SET ") + nonsense);
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(loaded->cordons.size(), 1U);
    EXPECT_EQ(loaded->cordons[0].gpu, lease::kEveryGpu);
    EXPECT_THAT(loaded->cordons[0].reason, HasSubstr("could not be read and may be of any GPU"));
    execute("DELETE FROM lease_cordons");
  }
}

TEST_F(LeaseDbTest, UnreadableAlertWithholdsItsGpu) {
  ASSERT_TRUE(load());
  const struct {
    const char* change;
    std::vector<DeviceId> cordoned;
  } cases[] = {
      {"state = 'resolvee'", {"GPU-0"}},
      {"heard_by = '['", {"GPU-0"}},
      {"heard_by = '[', gpu = ''", {lease::kEveryGpu}},
      {"heard_by = '[', gpu = '', gpu_index = NULL", {}},
      {"heard_by = '[', state = 'resolved'", {}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.change);
    execute(
        "INSERT OR REPLACE INTO alerts VALUES(7, 'ecc', 'GPU-0', 0, 'H100', '0:1', 'firing', 90, "
        "1, "
        "'', '', NULL, 1, NULL, '', NULL, NULL, NULL, NULL, '[]', 0)");
    execute(std::string("UPDATE alerts SET ") + one.change);
    for (int times = 0; times < 2; ++times) {
      const auto loaded = load();
      ASSERT_TRUE(loaded) << loaded.error().message;
      std::vector<DeviceId> cordoned;
      for (const Cordon& cordon : loaded->cordons) cordoned.push_back(cordon.gpu);
      EXPECT_EQ(cordoned, one.cordoned);
      restart();
    }
    execute("DELETE FROM lease_cordons; DELETE FROM alerts");
  }
}

TEST_F(LeaseDbTest, UnreadableBoardWithholdsItsGpu) {
  ASSERT_TRUE(load());
  execute(
      "INSERT INTO machine_boards VALUES('this', 'GPU-0', 0, '', '', 1, 1, 1, 'b', 'agregate', 0, "
      "0, NULL, 0, '[]', '[]')");
  const auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->cordons.size(), 1U);
  EXPECT_EQ(loaded->cordons[0].gpu, "GPU-0");
  EXPECT_THAT(loaded->cordons[0].reason, HasSubstr("a record of this GPU could not be read"));
}

TEST_F(LeaseDbTest, NewCordonOfAllGpusReplacesEarlierUncordons) {
  ASSERT_TRUE(load());
  lease::LeaseTransaction both = entry({held("a", 1, "GPU-0")});
  both.cordoned = {{lease::kEveryGpu, "gpuyard", "an earlier one", loop_.wall()},
                   {lease::kEveryGpu + DeviceId("GPU-0"), "uid 0", "uncordoned", loop_.wall()}};
  ASSERT_TRUE(save(both));
  EXPECT_EQ(load()->cordons.size(), 2U);
  execute("UPDATE leases SET gpus = '['");
  EXPECT_EQ(load()->cordons.size(), 1U);
}

TEST_F(LeaseDbTest, UnreadableEndedLeaseWithholdsNoGpu) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({ended("a", 1, loop_.wall())})));
  execute("UPDATE leases SET ending = 'bored'");
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->leases, IsEmpty());
  EXPECT_THAT(loaded->cordons, IsEmpty());
}

TEST_F(LeaseDbTest, ExistingCordonKeepsItsReason) {
  ASSERT_TRUE(load());
  lease::LeaseTransaction both = entry({held("a", 1, "GPU-0")});
  both.cordoned = {{"GPU-0", "uid 0", "new fan", loop_.wall()}};
  ASSERT_TRUE(save(both));
  execute("UPDATE leases SET uid = -1");
  EXPECT_THAT(load()->cordons.at(0).reason, HasSubstr("; and: new fan"));
}

TEST_F(LeaseDbTest, FencesRiseBeyondAnUnreadableLease) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1, "GPU-0"), held("b", 7, "GPU-1")})));
  execute("UPDATE leases SET uid = -1 WHERE id = 'b'");
  EXPECT_EQ(load()->last_fence, 7U);
  EXPECT_EQ(load()->last_ticket, 7U);
}

TEST_F(LeaseDbTest, FenceRisesAfterUnreadableCounter) {
  for (const char* const lost :
       {"UPDATE lease_counters SET name = 'last_fenge' WHERE name = 'last_fence'",
        "UPDATE lease_counters SET value = -5 WHERE name = 'last_fence'",
        "UPDATE lease_counters SET value = 1 WHERE name = 'last_fence'",
        "UPDATE leases SET fence = -7"}) {
    SCOPED_TRACE(lost);
    execute("DELETE FROM leases; DELETE FROM lease_counters");
    restart();
    ASSERT_TRUE(load());
    ASSERT_TRUE(save(entry({held("a", 5, "GPU-0")})));
    execute(lost);
    restart();
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->leases.size(), 1U);
    EXPECT_GT(loaded->last_fence, 1'000'000'000'000U);
    EXPECT_EQ(loaded->last_ticket, 5U);
    ASSERT_TRUE(save(entry({held("c", 6, "GPU-1")})));
    restart();
    EXPECT_GE(load()->last_fence, loaded->last_fence);
  }
}

TEST_F(LeaseDbTest, ANumberIsNotTakenForText) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1, "GPU-0")})));
  bool refused = false;
  ASSERT_TRUE(store_->run(
      Requester::daemon(),
      [](Database& database) { return database.execute("UPDATE leases SET uid = 'root'"); },
      [&](const Result<void>& done) { refused = !done; }));
  worker_.run_all();
  EXPECT_TRUE(refused);
}

TEST_F(LeaseDbTest, SaveBeforeLoadIsUnavailable) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1, "GPU-0")})));
  restart();
  EXPECT_EQ(save(entry({held("b", 2, "GPU-0")})).error().code, Errc::unavailable);
  EXPECT_EQ(load()->leases.size(), 1U);
  EXPECT_TRUE(save(entry({held("b", 2, "GPU-1")})));
}

// A later transaction may depend on a missing one: a GPU granted whose release was lost.
TEST_F(LeaseDbTest, FailedSaveBlocksSavesUntilReload) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1, "GPU-0")})));
  std::vector<std::string> outcomes;
  const auto note = [&](const std::string& name) {
    return [&, name](const Result<void>& done) {
      outcomes.push_back(name + (done ? " kept" : " lost"));
    };
  };
  const auto fails = [](Database&) -> Result<void> { return Error{Errc::unavailable, "full"}; };
  ASSERT_TRUE(store_->run(
      Requester::daemon(), [](Database&) { return Result<void>(); }, note("first group")));
  ASSERT_TRUE(
      db_->save(shared(entry({ended("a", 1, loop_.wall())})), [&](const Result<void>& done) {
        note("end")(done);
        ASSERT_TRUE(
            db_->save(shared(entry({held("c", 3, "GPU-0")})), note("grant, asked for then")));
      }));
  ASSERT_TRUE(store_->run(Requester::daemon(), fails, note("failure")));
  worker_.run_all();
  EXPECT_THAT(outcomes, ElementsAre("first group kept", "end lost", "failure lost",
                                    "grant, asked for then lost"));
  EXPECT_EQ(load()->leases, std::vector{held("a", 1, "GPU-0")});
  EXPECT_TRUE(save(entry({ended("a", 1, loop_.wall())})));
}

TEST_F(LeaseDbTest, FileCorruptionKeepsAcknowledgedState) {
  ASSERT_TRUE(load());
  lease::LeaseTransaction first = entry({held("a", 1, "GPU-0"), ended("b", 2, loop_.wall())});
  first.cordoned = {{"GPU-7", "uid 0", "broken", WallTime(milliseconds(1))}};
  ASSERT_TRUE(save(first));
  ASSERT_TRUE(store_->run(
      Requester::daemon(), [](Database&) -> Result<void> { return Error{Errc::unavailable, "no"}; },
      [](const Result<void>&) {}));
  worker_.run_all();
  std::filesystem::remove(path() + "-wal");
  std::ofstream(path()) << std::string(8192, 'x');
  EXPECT_FALSE(save(entry({held("c", 3, "GPU-1")}))) << "there is another file now";
  const auto kept = load();
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->leases, std::vector{held("a", 1, "GPU-0")});
  EXPECT_EQ(kept->cordons, first.cordoned);
  EXPECT_EQ(kept->last_fence, 2U);
  EXPECT_THAT(db_->notes(), ElementsAre(HasSubstr("was corrupt")));
  EXPECT_TRUE(save(entry({held("c", 3, "GPU-1")})));
  restart();
  EXPECT_EQ(load()->leases.size(), 2U);
}

TEST_F(LeaseDbTest, AnOlderFileInItsPlaceIsNotBelieved) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1, "GPU-0")})));
  execute("CREATE TABLE spare AS SELECT * FROM leases");
  ASSERT_TRUE(save(entry({ended("a", 1, loop_.wall()), held("b", 2, "GPU-0")})));
  execute(
      "DELETE FROM leases; INSERT INTO leases SELECT * FROM spare;"
      "UPDATE lease_counters SET value = 1");
  EXPECT_EQ(load()->leases, std::vector{held("b", 2, "GPU-0")});
  EXPECT_TRUE(save(entry({held("c", 3, "GPU-1")})));
}

// The present time is a higher number than any fence granted before.
TEST_F(LeaseDbTest, CorruptFileAtStartTakesFenceFromClock) {
  ASSERT_TRUE(load());
  ASSERT_TRUE(save(entry({held("a", 1000, "GPU-0")})));
  db_.reset();
  store_.reset();
  std::ofstream(path()) << std::string(8192, 'x');
  restart();
  const auto kept = load();
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_THAT(kept->leases, IsEmpty());
  EXPECT_EQ(kept->last_fence, static_cast<lease::Fence>(loop_.wall().time_since_epoch().count()));
  loop_.advance(hours(1));
  restart();
  EXPECT_EQ(load()->last_fence, kept->last_fence);
}

TEST_F(LeaseDbTest, DestructionSuppressesCallbacksButCommits) {
  ASSERT_TRUE(load());
  bool was_called = false;
  ASSERT_TRUE(db_->save(shared(entry({held("a", 1, "GPU-0")})),
                        [&](const Result<void>&) { was_called = true; }));
  ASSERT_TRUE(db_->load({}, [&](const Result<SavedLeases>&) { was_called = true; }));
  db_.reset();
  worker_.run_all();
  EXPECT_FALSE(was_called);
  restart();
  EXPECT_EQ(load()->leases.size(), 1U) << "but it is kept";
}

}  // namespace
}  // namespace gpuyard::store
