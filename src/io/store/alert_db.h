// The alerts, their silences, and the notifications that sinks are still to get, in state.db.
#pragma once

#include "core/andon/alert.h"
#include "core/andon/alert_storage.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// Times are milliseconds of the wall clock; the sinks that were notified of an alert are JSON:
// ["ops","log"].
inline constexpr const char* kAlertTables = R"(
CREATE TABLE alerts(
  number INTEGER PRIMARY KEY,
  rule TEXT NOT NULL,
  gpu TEXT NOT NULL,
  gpu_index INTEGER,
  gpu_name TEXT NOT NULL,
  pci_address TEXT NOT NULL,
  state TEXT NOT NULL,
  severity INTEGER NOT NULL,
  value REAL NOT NULL,
  message TEXT NOT NULL,
  advice TEXT NOT NULL,
  xid INTEGER,
  fired_ms INTEGER NOT NULL,
  resolved_ms INTEGER,
  ending TEXT NOT NULL,
  acknowledged_by TEXT,
  acknowledged_note TEXT,
  acknowledged_ms INTEGER,
  told INTEGER,
  heard_by TEXT NOT NULL,
  simulated INTEGER NOT NULL) STRICT;
CREATE TABLE alert_silences(
  id TEXT PRIMARY KEY,
  rule TEXT NOT NULL,
  gpu TEXT NOT NULL,
  by TEXT NOT NULL,
  comment TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE alert_outbox(
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  sink TEXT NOT NULL,
  body TEXT NOT NULL) STRICT;
)";

// Indexes for filtering alerts by rule or by GPU.
inline constexpr const char* kAlertIndexes = R"(
CREATE INDEX alerts_by_rule ON alerts(rule, number);
CREATE INDEX alerts_by_gpu ON alerts(gpu, number);
)";

Result<andon::SavedAlerts> load_alerts(Database&);
// Sets aside unreadable alerts that may be firing; load_alerts() does so, too.
Result<void> set_aside_bad_alerts(Database&);
Result<void> save_alerts(Database&, const andon::AlertTransaction&);
Result<std::vector<andon::Alert>> load_alert_history(Database&, const andon::AlertHistoryQuery&);

// Thread: io.
class AlertDb final : public andon::AlertStorage {
 public:
  // The store outlives this.
  explicit AlertDb(StateStore& store) : store_(store) {}
  bool load(std::function<void(Result<andon::SavedAlerts>)> on_done) override;
  bool save(andon::AlertTransaction, OnSaved on_done) override;
  bool has_queue_space(const Requester& requester) const override {
    return store_.can_accept(requester);
  }
  bool query_history(andon::AlertHistoryQuery,
                     std::function<void(Result<std::vector<andon::Alert>>)> on_done) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

 private:
  StateStore& store_;
};

}  // namespace gpuyard::store
