// The daemon's alert service: evaluates the rules on every snapshot, and notifies of alerts. Knows
// no sink (AlertNotifier does) and no lease.
//
// FactCollector turns a snapshot into the facts that rules evaluate: numbers, or nothing, which
// trips nothing. RuleEngine knows which rule is pending, firing or resolved for which GPU.
// AlertStore saves what changes before it is sent.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/requester.h"
#include "base/result.h"
#include "core/andon/alert.h"
#include "core/andon/alert_notifier.h"
#include "core/andon/alert_storage.h"
#include "core/andon/alert_store.h"
#include "core/andon/rule_engine.h"
#include "core/andon/silences.h"

namespace gpuyard::andon {

// The reason why a GPU gets no new work.
struct Quarantine {
  std::string rule;
  std::uint64_t alert = 0;
  std::string text;
  std::string message;  // of the alert
  std::string advice;
};

class AlertService {
 public:
  using OnAlert = std::function<void(Result<Alert>)>;
  using OnSilence = std::function<void(Result<Silence>)>;
  using OnDone = std::function<void(const Result<void>&)>;

  // Alerts wait this long for the disk to be read at the start. After that they fire without it.
  static constexpr Duration kLoadTimeout = std::chrono::seconds(10);

  // The loop, the storage and the notifier outlive the service.
  AlertService(Loop&, AlertStorage&, AlertNotifier&, Rules);
  AlertService(const AlertService&) = delete;
  AlertService& operator=(const AlertService&) = delete;

  // Reads the saved state. No rule is evaluated before that is done.
  void start();

  void on_event(const DeviceEvent& event) { engine_.on_event(event); }
  void on_echo(const DeviceEvent& event) { engine_.on_echo(event); }
  void tick(const Facts&);
  // Evaluates these rules from now on.
  void replace(Rules);
  // Removes a message that its sink has accepted, or never will.
  void mark_delivered(const std::string& message_id) { store_.mark_delivered(message_id); }

  // Each calls back once the change is on the disk, never inside the call. Errors: not_found,
  // conflict (the alert is resolved), unavailable (in effect, but not stored), busy (too many
  // silences, or this requester's share of the disk queue is full; nothing is changed).
  void acknowledge(std::uint64_t number, Acknowledgement, const OnAlert&,
                   const Requester& = Requester::daemon());
  void silence(Silence, const OnSilence&, const Requester& = Requester::daemon());
  void unsilence(const std::string& name, const OnDone&, const Requester& = Requester::daemon());
  // Returns an alert that fires, or that is resolved but not saved yet; null: only query_history()
  // may find it.
  const Alert* find(std::uint64_t number) const;
  bool query_history(AlertHistoryQuery query,
                     std::function<void(Result<std::vector<Alert>>)> on_result) {
    return storage_.query_history(std::move(query), std::move(on_result));
  }

  // One hook, called at once for every alert that fires, gets worse, is acknowledged or resolved.
  void set_on_change(std::function<void(const Alert&)> on_change) {
    on_change_ = std::move(on_change);
  }

  // One hook, called for an alert that a user acknowledges, before it is saved.
  void set_on_acknowledged(std::function<void(const Alert&, const Rule&)> on_acknowledged) {
    on_acknowledged_ = std::move(on_acknowledged);
  }
  // Ends all alerts about a GPU that was taken out of the machine.
  void remove_gpu(const DeviceId&, const std::string& why);

  const RuleEngine& engine() const { return engine_; }
  const SilenceTable& silences() const { return silences_; }
  std::optional<Quarantine> quarantine(const DeviceId&) const;
  const std::map<std::string, OutboxMessage>& outbox() const { return store_.outbox(); }
  bool is_open() const { return open_; }
  // Whether the stored alerts have been read.
  bool is_loaded() const { return store_.is_loaded(); }
  // Whether the stored alerts are still being read, even if alerts fire without them already. False
  // once a read has failed.
  bool is_loading() const { return !open_ || (!store_.is_loaded() && !store_.has_load_failed()); }
  std::optional<Error> storage_error() const { return store_.error(); }

 private:
  void on_loaded(const SavedAlerts&);
  void open_without_saved_state();
  void open();
  void apply_transitions(const std::vector<AlertTransition>&);
  void notify_firing();
  void notify_new_sinks();
  void run_command(const Alert&);
  void update_quarantine();

  Loop& loop_;
  AlertStorage& storage_;
  AlertNotifier& notifier_;
  RuleEngine engine_;
  SilenceTable silences_;
  AlertStore store_;
  std::map<DeviceId, Quarantine> quarantines_;
  std::function<void(const Alert&)> on_change_ = [](const Alert&) {};
  std::function<void(const Alert&, const Rule&)> on_acknowledged_ = [](const Alert&, const Rule&) {
  };
  bool open_ = false;
  Subscription open_timer_;
};

}  // namespace gpuyard::andon
