// Generates the table of queues in docs/fairness.md from the limits in the code.
#include <array>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/golden_for_tests.h"
#include "base/limits.h"
#include "base/worker.h"
#include "core/andon/alert_service.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "core/control/gpu_queue.h"
#include "core/energy/meter.h"
#include "daemon/lease_observer.h"
#include "daemon/sink_tester.h"
#include "faces/api/event_hub.h"
#include "io/http/limits.h"
#include "io/http/resolver.h"
#include "io/notify/back_off.h"
#include "io/store/control_db.h"
#include "io/store/state_store.h"

namespace gpuyard::daemon {
namespace {

struct QueueRow {
  std::string what;
  std::string all;
  std::string one;   // for each user or address
  std::string kept;  // reserved for root and the daemon
  std::string beyond;
};

// 20000 as "20,000".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::vector<QueueRow> queue_rows() {
  const http::Limits http;
  const UserQuotas each;
  constexpr SlotPool::Limits kState = store::StateStore::kQueueLimits;
  constexpr SlotPool::Limits kControl = store::ControlDb::kQueueLimits;
  const auto more = [](std::size_t places) { return grouped(places) + " more"; };
  const auto a_minute = [](std::int64_t times) {
    return grouped(static_cast<std::uint64_t>(times)) + " a minute";
  };
  return {
      {"connections of a listener", grouped(http.connections), grouped(http.connections_per_group),
       more(http.reserved_slots), "an idle one of the same user is closed, otherwise 503"},
      {"streams of a listener", grouped(http.streams), grouped(http.streams_per_group),
       more(http.reserved_slots), "503"},
      {"TLS handshakes", grouped(http.handshakes), grouped(http.handshakes_per_group),
       "none: the Unix socket has no handshake", "refused"},
      {"delayed responses to wrong tokens", grouped(auth::AuthThrottle::kMaxDelayedReplies),
       grouped(auth::AuthThrottle::kMaxUndelayedFailures) + " at once, then one at a time",
       "all: a valid token is never delayed", "429"},
      {"tokens created and revoked", "", a_minute(limits::kTokenChangesPerMinute), "no limit",
       "503"},
      {"valid tokens", grouped(auth::TokenStore::kMaxTokens),
       grouped(auth::TokenStore::kMaxTokensPerUser), grouped(auth::TokenStore::kReservedForAdmins),
       "503"},
      {"waiting claims", grouped(limits::kMaxWaitingClaims),
       grouped(static_cast<std::uint64_t>(each.waiting_claims)), more(limits::kReservedSlots),
       "503"},
      {"new claims", "", a_minute(each.claims_a_minute), "no limit", "503"},
      {"processes being adopted", "one check at a time", grouped(limits::kMaxAdoptionsPerUser),
       "no limit", "503"},
      {"checks of the processes of leases", grouped(LeaseObserver::kMaxPendingRequests),
       "as many as its claims", "", "checked later"},
      {"changes of settings", "", a_minute(each.changes_a_minute), "no limit", "503"},
      {"queued changes of one GPU", grouped(control::GpuQueue::kMaxQueuedChanges),
       "its changes a minute", "restoring a setting is never refused", "503"},
      {"work for state.db", grouped(kState.max), grouped(kState.max_per_group),
       grouped(kState.reserved) + " of them, also for leases and settings", "503"},
      {"settings and audit entries batched for 100 ms", grouped(kControl.max),
       grouped(kControl.max_per_group),
       grouped(kControl.reserved) + " of them; settings count as the daemon's",
       "the audit entry is lost; logged once a minute"},
      {"audited refusals", "",
       a_minute(limits::kMaxRefusalsPerMinute) + "; over TCP, addresses beyond " +
           grouped(limits::kMaxRefusedAddresses) + " share one count",
       "no limit", "counted in the next entry"},
      {"other audited actions of a user with control rights", "",
       a_minute(limits::kMemberActionsPerMinute), "no limit", "counted in the next entry"},
      {"queries of history, usage, alerts and audit",
       grouped(limits::kMaxRunningQueries) + " at a time", grouped(limits::kMaxQueriesPerUser),
       "every second turn", "503"},
      {"energy windows", grouped(energy::Ledger::kMaxWindows),
       grouped(energy::Ledger::kMaxWindowsPerOwner), more(energy::Ledger::kReservedForAdmins),
       "503"},
      {"responses that wait for the energy accounting", grouped(energy::Meter::kMaxWaitingReplies),
       "", "", "answered before it is stored"},
      {"silences", grouped(andon::SilenceTable::kMaxSilences), "",
       grouped(andon::SilenceTable::kReservedForAdmins) + " of them", "503"},
      {"stored alert notifications", grouped(andon::AlertStore::kMaxOutboxMessages), "", "",
       "sent, but not stored"},
      {"notifications queued for one sink", grouped(notify::kMaxQueuedNotifications), "", "",
       "the oldest is dropped"},
      {"tests of sinks", grouped(SinkTester::kMaxTests), "", "", "503"},
      {"events in memory", grouped(api::EventHub::kMaxEvents), "", "", "the oldest is dropped"},
      {"commands being started", grouped(limits::kMaxStartingCommands), "", "", "not started"},
      {"name look-ups for sinks", grouped(http::kMaxLookups), "", "", "retried later"},
      {"queued work of one of the daemon's threads", grouped(ThreadWorker::kMaxQueued), "", "",
       "refused and retried"},
  };
}

constexpr std::string_view kQueueHead =
    "| queue | in all | one user or address | reserved for root and the daemon | beyond it |\n"
    "|---|---|---|---|---|\n";

std::string queue_table() {
  std::string text(kQueueHead);
  for (const QueueRow& row : queue_rows()) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.what, row.all, row.one, row.kept,
                        row.beyond);
  }
  return text;
}

}  // namespace

TEST(Queues, DocumentedLimitsMatchTheCode) {
  std::string page = document("fairness.md");
  const std::size_t begin = page.find(kQueueHead);
  ASSERT_NE(begin, std::string::npos) << "docs/fairness.md has no table of queues";
  page.replace(begin, page.find("\n\n", begin) + 1 - begin, queue_table());
  expect_document("fairness.md", page);
}

}  // namespace gpuyard::daemon
