#include "io/store/alert_db.h"

#include <memory>
#include <utility>

#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

using andon::Alert;
using andon::OutboxMessage;
using andon::Silence;

constexpr std::string_view kAlertColumns =
    "number, rule, gpu, gpu_index, gpu_name, pci_address, state, severity, value, message, advice, "
    "xid, fired_ms, resolved_ms, ending, acknowledged_by, acknowledged_note, acknowledged_ms, "
    "told, heard_by, simulated";

constexpr auto kAlert = [](auto& row, auto& alert) {
  row(alert.number, alert.rule, alert.gpu, alert.index, alert.gpu_name, alert.pci_address,
      alert.state, alert.severity, alert.value, alert.message, alert.advice, alert.xid, alert.fired,
      alert.resolved, alert.end_reason);
  row.nullable(alert.acknowledged, 3,
               [](auto& columns, auto& by) { columns(by.by, by.note, by.at); });
  row(alert.notified_severity, alert.notified_sinks, alert.simulated);
};
// A firing alert may withhold its GPU.
constexpr RowSelection kFiringAlerts{
    "alerts",
    "number",
    kAlertColumns,
    "WHERE state <> 'resolved' ORDER BY number",
    "CASE WHEN gpu <> '' THEN json_array(gpu) WHEN gpu_index IS NOT NULL THEN '[]' END",
    "an alert"};
constexpr auto kSilence = [](auto& row, auto& one) {
  row(one.id, one.rule, one.gpu, one.by, one.comment, one.since, one.until);
};
constexpr auto kOutboxMessage = [](auto& row, auto& one) {
  row(one.order, one.id, one.sink, one.body);
};

Result<void> put_alerts(Database& database, const std::vector<Alert>& alerts) {
  if (alerts.empty()) return {};
  auto put = run_for_each(
      database, "INSERT OR REPLACE INTO alerts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      alerts, kAlert);
  if (!put) return put;
  return run(database,
             "DELETE FROM alerts WHERE state = 'resolved' AND number <= "
             "(SELECT number FROM alerts ORDER BY number DESC LIMIT 1 OFFSET ?)",
             andon::AlertStorage::kMaxResolvedAlerts);
}

// An unreadable row is skipped: this connection is read-only and cannot set it aside.
Result<std::vector<Alert>> alerts_in(Result<Statement> rows) {
  if (!rows) return std::move(rows).error();
  std::vector<Alert> alerts;
  auto read = each_row(*rows, [&](const Statement& row) {
    RowReader reader(row);
    kAlert(reader, alerts.emplace_back());
    if (!reader.fault().empty()) alerts.pop_back();
  });
  if (!read) return std::move(read).error();
  return alerts;
}

}  // namespace

Result<andon::SavedAlerts> load_alerts(Database& database) {
  andon::SavedAlerts saved;
  // Includes the numbers of unreadable alerts, so that none is reused.
  const auto last = GPUYARD_TRY(database.query_number(
      "SELECT max(ifnull((SELECT max(number) FROM alerts), 0), ifnull((SELECT max(CAST(key AS "
      "INTEGER)) FROM unreadable_rows WHERE origin = 'alerts'), 0))"));
  saved.last_number = static_cast<std::uint64_t>(last);
  auto read = read_rows(saved.firing, database, kFiringAlerts, kAlert);
  if (read) {
    read = read_into(saved.silences, database,
                     "SELECT id, rule, gpu, by, comment, since_ms, until_ms FROM alert_silences",
                     kSilence);
  }
  if (read) {
    read = read_into(saved.messages, database,
                     "SELECT number, id, sink, body FROM alert_outbox ORDER BY number",
                     kOutboxMessage);
  }
  if (!read) return std::move(read).error();
  return saved;
}

Result<void> set_aside_bad_alerts(Database& database) {
  std::vector<Alert> firing;
  return read_rows(firing, database, kFiringAlerts, kAlert);
}

Result<void> save_alerts(Database& database, const andon::AlertTransaction& transaction) {
  if (transaction.everything) {
    auto done = database.execute(
        "DELETE FROM alerts WHERE state <> 'resolved'; DELETE FROM alert_silences; "
        "DELETE FROM alert_outbox");
    if (!done) return done;
  }
  GPUYARD_TRY(put_alerts(database, transaction.alerts));
  auto done = run_for_each(database, "INSERT OR REPLACE INTO alert_silences VALUES(?,?,?,?,?,?,?)",
                           transaction.silences, kSilence);
  if (done) {
    done = run_for_each(database, "INSERT OR REPLACE INTO alert_outbox VALUES(?,?,?,?)",
                        transaction.messages, kOutboxMessage);
  }
  if (done) {
    done = run_for_each(database, "DELETE FROM alert_silences WHERE id=?", transaction.unsilenced,
                        kSingleColumn);
  }
  if (!done) return done;
  return run_for_each(database, "DELETE FROM alert_outbox WHERE id=?", transaction.delivered,
                      kSingleColumn);
}

Result<std::vector<Alert>> load_alert_history(Database& database,
                                              const andon::AlertHistoryQuery& query) {
  const std::uint64_t before = std::min<std::uint64_t>(query.before.value_or(INT64_MAX), INT64_MAX);
  const std::string columns = "SELECT " + std::string(kAlertColumns) + " FROM alerts WHERE ";
  if (!query.gpus.empty()) {
    return alerts_in(prepare(database,
                             columns +
                                 "number IN (SELECT a.number FROM json_each(?4) AS g, alerts AS a "
                                 "WHERE a.gpu = g.value AND a.number < ?1 AND (?3 = '' OR a.rule = "
                                 "?3) ORDER BY a.number DESC LIMIT ?2) ORDER BY number DESC",
                             before, query.limit, query.rule, json_list(query.gpus)));
  }
  const char* const of_rule = query.rule.empty() ? "?3 = ''" : "rule = ?3";
  return alerts_in(prepare(database,
                           columns + of_rule + " AND number < ?1 ORDER BY number DESC LIMIT ?2",
                           before, query.limit, query.rule));
}

bool AlertDb::load(std::function<void(Result<andon::SavedAlerts>)> on_done) {
  return store_.load<andon::SavedAlerts>(&load_alerts, std::move(on_done));
}

// A delivery needs no sync of its own: a receiver that is notified again after a power cut knows
// the notification by its id.
bool AlertDb::save(andon::AlertTransaction transaction, OnSaved on_done) {
  const bool only_delivered = transaction.alerts.empty() && transaction.silences.empty() &&
                              transaction.unsilenced.empty() && transaction.messages.empty();
  const auto shared = std::make_shared<const andon::AlertTransaction>(std::move(transaction));
  StateDb::Work work;
  if (!shared->empty()) {
    work = [shared](Database& database) { return save_alerts(database, *shared); };
  }
  return store_.run(shared->requester, std::move(work), std::move(on_done),
                    only_delivered ? Durability::normal : Durability::full);
}

bool AlertDb::query_history(andon::AlertHistoryQuery query,
                            std::function<void(Result<std::vector<Alert>>)> on_done) {
  return store_.run_query<std::vector<Alert>>(
      [query = std::move(query)](Database& database) {
        return load_alert_history(database, query);
      },
      std::move(on_done));
}

}  // namespace gpuyard::store
