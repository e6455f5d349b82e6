#include "store/alert_db.h"

#include <memory>
#include <utility>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "store/rows.h"

namespace gpuyard::store {
namespace {

using andon::Alert;
using andon::Outgoing;
using andon::Silence;

constexpr std::string_view kAlertColumns =
    "number, rule, gpu, gpu_index, gpu_name, pci_address, state, severity, value, message, advice, "
    "xid, fired_ms, resolved_ms, ending, acknowledged_by, acknowledged_note, acknowledged_ms, "
    "told, heard_by, simulated";

std::optional<std::uint32_t> optional_number(const Statement& row, int column) {
  const auto value = optional_integer(row, column);
  return value ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

// Reads rows, and remembers that one made no sense.
struct AlertReader {
  bool sound = true;

  Alert alert(const Statement& row) {
    Alert alert;
    alert.number = static_cast<std::uint64_t>(row.integer(0));
    alert.rule = row.text(1);
    alert.gpu = row.text(2);
    alert.index = optional_number(row, 3);
    alert.gpu_name = row.text(4);
    alert.pci_address = row.text(5);
    const auto state = enum_from_name<andon::State>(row.text(6));
    sound = sound && state.has_value();
    alert.state = state.value_or(andon::State::firing);
    alert.severity = static_cast<int>(row.integer(7));
    alert.value = row.real(8);
    alert.message = row.text(9);
    alert.advice = row.text(10);
    alert.xid = optional_number(row, 11);
    alert.fired = wall_of(row.integer(12));
    if (!row.is_null(13)) alert.resolved = wall_of(row.integer(13));
    alert.ending = row.text(14);
    if (!row.is_null(15)) {
      alert.acknowledged = {std::string(row.text(15)), std::string(row.text(16)),
                            wall_of(row.integer(17))};
    }
    if (!row.is_null(18)) alert.told = static_cast<int>(row.integer(18));
    auto heard_by = json::from_json<std::vector<std::string>>(row.text(19));
    sound = sound && heard_by;
    if (heard_by) alert.heard_by = *std::move(heard_by);
    alert.simulated = row.integer(20) != 0;
    return alert;
  }
};

Silence silence_of(const Statement& row) {
  return {std::string(row.text(0)), std::string(row.text(1)), std::string(row.text(2)),
          std::string(row.text(3)), std::string(row.text(4)), wall_of(row.integer(5)),
          wall_of(row.integer(6))};
}

std::optional<std::int64_t> wide(const std::optional<std::uint32_t>& number) {
  return number ? std::optional<std::int64_t>(*number) : std::nullopt;
}

void bind_alert(Statement& put, const Alert& alert) {
  put.bind(1, static_cast<std::int64_t>(alert.number)).bind(2, alert.rule).bind(3, alert.gpu);
  bind_optional(put, 4, wide(alert.index));
  put.bind(5, alert.gpu_name).bind(6, alert.pci_address).bind(7, enum_name(alert.state));
  put.bind(8, std::int64_t{alert.severity}).bind(9, alert.value);
  put.bind(10, alert.message).bind(11, alert.advice);
  bind_optional(put, 12, wide(alert.xid));
  put.bind(13, ms(alert.fired));
  bind_optional(put, 14, alert.resolved ? std::optional(ms(*alert.resolved)) : std::nullopt);
  put.bind(15, alert.ending);
  if (const auto& by = alert.acknowledged) {
    put.bind(16, by->by).bind(17, by->note).bind(18, ms(by->at));
  } else {
    put.bind_null(16).bind_null(17).bind_null(18);
  }
  bind_optional(put, 19, alert.told ? std::optional<std::int64_t>(*alert.told) : std::nullopt);
  put.bind(20, json::to_json(alert.heard_by)).bind(21, std::int64_t{alert.simulated});
}

Result<void> put_alerts(Database& database, const std::vector<Alert>& alerts) {
  if (alerts.empty()) return {};
  auto put = database.prepare(
      "INSERT OR REPLACE INTO alerts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const Alert& alert : alerts) {
    bind_alert(*put, alert);
    if (auto done = put->run(); !done) return done;
  }
  auto prune = database.prepare(
      "DELETE FROM alerts WHERE state = 'resolved' AND number <= "
      "(SELECT number FROM alerts ORDER BY number DESC LIMIT 1 OFFSET ?)");
  if (!prune) return std::move(prune).error();
  return prune->bind(1, andon::Archive::kAlertsKept).run();
}

Result<void> put_silences(Database& database, const std::vector<Silence>& silences) {
  auto put = database.prepare("INSERT OR REPLACE INTO alert_silences VALUES(?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const Silence& one : silences) {
    put->bind(1, one.id).bind(2, one.rule).bind(3, one.gpu).bind(4, one.by).bind(5, one.comment);
    put->bind(6, ms(one.since)).bind(7, ms(one.until));
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> put_outgoing(Database& database, const std::vector<Outgoing>& outgoing) {
  auto put = database.prepare("INSERT OR REPLACE INTO alert_outbox VALUES(?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const Outgoing& one : outgoing) {
    put->bind(1, static_cast<std::int64_t>(one.order)).bind(2, one.id).bind(3, one.sink);
    put->bind(4, one.body);
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> remove(Database& database, std::string_view query,
                    const std::vector<std::string>& ids) {
  auto remove = database.prepare(query);
  if (!remove) return std::move(remove).error();
  for (const std::string& id : ids) {
    if (auto done = remove->bind(1, id).run(); !done) return done;
  }
  return {};
}

Error not_ours(const Database& database) {
  return {Errc::conflict, "the alerts kept in " + database.path() +
                              " are not of this version of gpuyard; start the one that wrote them"};
}

}  // namespace

Result<andon::Kept> load_alerts(Database& database) {
  andon::Kept kept;
  AlertReader reader;
  auto read = each_row(database,
                       "SELECT " + std::string(kAlertColumns) +
                           " FROM alerts WHERE state <> 'resolved' ORDER BY number",
                       [&](const Statement& row) { kept.firing.push_back(reader.alert(row)); });
  if (!read) return std::move(read).error();
  if (!reader.sound) return not_ours(database);
  read = each_row(database,
                  "SELECT id, rule, gpu, by, comment, since_ms, until_ms FROM alert_silences",
                  [&](const Statement& row) { kept.silences.push_back(silence_of(row)); });
  if (!read) return std::move(read).error();
  read = each_row(database, "SELECT id, sink, body, number FROM alert_outbox ORDER BY number",
                  [&](const Statement& row) {
                    kept.outgoing.push_back({std::string(row.text(0)), std::string(row.text(1)),
                                             std::string(row.text(2)),
                                             static_cast<std::uint64_t>(row.integer(3))});
                  });
  if (!read) return std::move(read).error();
  read = each_row(database, "SELECT ifnull(max(number), 0) FROM alerts", [&](const Statement& row) {
    kept.last_number = static_cast<std::uint64_t>(row.integer(0));
  });
  if (!read) return std::move(read).error();
  return kept;
}

Result<void> save_alerts(Database& database, const andon::Entry& entry) {
  if (entry.everything) {
    auto done = database.execute(
        "DELETE FROM alerts WHERE state <> 'resolved'; DELETE FROM alert_silences; "
        "DELETE FROM alert_outbox");
    if (!done) return done;
  }
  if (auto done = put_alerts(database, entry.alerts); !done) return done;
  if (auto done = put_silences(database, entry.silences); !done) return done;
  if (auto done = put_outgoing(database, entry.outgoing); !done) return done;
  auto done = remove(database, "DELETE FROM alert_silences WHERE id=?", entry.unsilenced);
  if (!done) return done;
  return remove(database, "DELETE FROM alert_outbox WHERE id=?", entry.delivered);
}

Result<std::vector<Alert>> load_alert_history(Database& database,
                                              const andon::HistoryQuestion& question) {
  auto rows = database.prepare("SELECT " + std::string(kAlertColumns) +
                               " FROM alerts WHERE (?1 = '' OR rule = ?1) AND (?2 = '' OR "
                               "instr(',' || ?2 || ',', ',' || gpu || ',') > 0) AND number < ?3 "
                               "ORDER BY number DESC LIMIT ?4");
  if (!rows) return std::move(rows).error();
  const std::uint64_t before = question.before.value_or(INT64_MAX);
  rows->bind(1, question.rule).bind(2, question.gpus);
  rows->bind(3, static_cast<std::int64_t>(std::min<std::uint64_t>(before, INT64_MAX)));
  rows->bind(4, question.limit);
  std::vector<Alert> alerts;
  AlertReader reader;
  auto read = each_row(*rows, [&](const Statement& row) { alerts.push_back(reader.alert(row)); });
  if (!read) return std::move(read).error();
  if (!reader.sound) return not_ours(database);
  return alerts;
}

bool AlertDb::load(std::function<void(Result<andon::Kept>)> loaded) {
  return store_.ask<andon::Kept>(&load_alerts, std::move(loaded));
}

// That a sink has taken it needs no sync of its own: whoever is told again after a power cut knows
// it by its id.
bool AlertDb::save(andon::Entry entry, Saved kept) {
  const bool only_delivered = entry.alerts.empty() && entry.silences.empty() &&
                              entry.unsilenced.empty() && entry.outgoing.empty();
  return store_.run([shared = std::make_shared<const andon::Entry>(std::move(entry))](
                        Database& database) { return save_alerts(database, *shared); },
                    std::move(kept), only_delivered ? Durability::normal : Durability::full);
}

bool AlertDb::history(andon::HistoryQuestion question,
                      std::function<void(Result<std::vector<Alert>>)> answered) {
  return store_.ask<std::vector<Alert>>(
      [question = std::move(question)](Database& database) {
        return load_alert_history(database, question);
      },
      std::move(answered));
}

}  // namespace gpuyard::store
