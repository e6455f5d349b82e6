// The daemon's alert service: evaluates the rules on every snapshot, saves alerts before it sends
// notifications of them. Knows no sink (AlertNotifier does) and no lease.
//
// FactCollector turns a snapshot into the facts that rules evaluate: numbers, or nothing, which
// trips nothing. RuleEngine knows which rule is pending, firing or resolved for which GPU. The
// changes of a tick and the messages about them are one transaction in state.db; messages are sent
// once that is synced (docs/decisions/009), at once if it fails, or after kSaveTimeout if the disk
// does not answer. A message stays in the outbox until its sink has accepted it, or has made a dead
// letter of it.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/andon/alert.h"
#include "core/andon/alert_storage.h"
#include "core/andon/rule_engine.h"
#include "core/andon/silences.h"

namespace gpuyard::andon {

// Carries messages to sinks. Thread: io.
class AlertNotifier {
 public:
  virtual ~AlertNotifier() = default;
  // Returns the sinks that are notified that the alert fires: those that its rule names, or else
  // all that want alerts of its level.
  virtual std::vector<std::string> sinks_for(const Alert&, const Rule&) = 0;
  // Returns the sink that runs the rule's command, or "" if the rule has none.
  virtual std::string command_of(const Rule&) = 0;
  // Builds the message to a sink about an alert, firing or resolved. Sends nothing.
  virtual OutboxMessage make_message(const Alert&, const std::string& sink) = 0;
  // Sends the message, now or when the sink can accept it. AlertService::mark_delivered() is called
  // then, never inside this call.
  virtual void send(const OutboxMessage&) = 0;
};

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

  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(1);
  // Alerts wait this long for the disk to be read at the start. After that they fire without it.
  static constexpr Duration kLoadTimeout = std::chrono::seconds(10);
  static constexpr Duration kSaveRetryDelay = std::chrono::seconds(5);
  // A message waits this long for its write to the disk. After that it is sent all the same.
  static constexpr Duration kSaveTimeout = std::chrono::seconds(5);
  // Messages on disk; more are only sent.
  static constexpr std::size_t kMaxOutboxMessages = 8192;
  static constexpr std::size_t kMaxUnsavedResolved = 1024;  // resolved alerts not yet on disk

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
  void mark_delivered(const std::string& message_id);

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
  const std::map<std::string, OutboxMessage>& outbox() const { return outbox_; }
  bool is_open() const { return open_; }
  // Whether the stored alerts have been read.
  bool is_loaded() const { return loaded_; }
  // Whether the stored alerts are still being read, even if alerts fire without them already. False
  // once a read has failed.
  bool is_loading() const { return !open_ || (!loaded_ && !load_failed_); }
  std::optional<Error> storage_error() const { return storage_error_; }

 private:
  using OnSaved = std::function<void(const Result<void>&)>;

  // A transaction that is being saved, and the messages to send once it is.
  struct PendingSave {
    AlertTransaction transaction;
    std::vector<OutboxMessage> messages;
    bool sent = false;
    OnSaved on_saved;
  };
  using PendingSavePtr = std::shared_ptr<PendingSave>;

  void load();
  void on_loaded(Result<andon::SavedAlerts>);
  void merge(const andon::SavedAlerts&);
  void open_without_saved_state();
  void open();
  void apply_transitions(const std::vector<AlertTransition>&);
  void notify_firing();
  void notify_new_sinks();
  void run_command(const Alert&);
  void enqueue_messages(const Alert&, const std::vector<std::string>& sinks);
  void update_quarantine();
  void stage(Alert);
  void flush(OnSaved on_done = nullptr, const Requester& = Requester::daemon());
  void save(const PendingSavePtr&);
  void send_messages(PendingSave&);
  void record_storage_error(const Error&);
  void on_saved(const PendingSavePtr&, const Result<void>&);
  AlertTransaction full_transaction() const;

  Loop& loop_;
  AlertStorage& storage_;
  AlertNotifier& notifier_;
  RuleEngine engine_;
  SilenceTable silences_;
  std::map<std::string, OutboxMessage> outbox_;
  std::map<DeviceId, Quarantine> quarantines_;
  AlertTransaction transaction_;                     // the next one to be saved
  std::uint64_t next_order_ = 1;                     // of the next message
  std::map<std::uint64_t, Alert> unsaved_resolved_;  // resolved, and not saved yet
  std::function<void(const Alert&)> on_change_ = [](const Alert&) {};
  std::function<void(const Alert&, const Rule&)> on_acknowledged_ = [](const Alert&, const Rule&) {
  };
  bool open_ = false;
  bool loaded_ = false;           // the saved state has been read
  bool load_failed_ = false;      // at least once
  bool needs_full_save_ = false;  // the disk lacks something that it was given
  std::uint64_t next_save_ = 0;
  // One timer for each save without a reply.
  std::map<std::uint64_t, Subscription> save_timeouts_;
  std::optional<Error> storage_error_;
  Subscription load_timer_;
  Subscription open_timer_;
  Subscription save_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::andon
