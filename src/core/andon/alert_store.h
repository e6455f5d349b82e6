// Saves what changes about alerts before sinks are notified of it.
//
// The changes of a tick and the messages about them are one transaction in state.db; messages are
// sent once that is synced (docs/decisions/009), at once if it fails, or after kSaveTimeout if the
// disk does not answer. A message stays in the outbox until its sink has accepted it, or has made a
// dead letter of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/requester.h"
#include "base/result.h"
#include "core/andon/alert.h"
#include "core/andon/alert_notifier.h"
#include "core/andon/alert_storage.h"
#include "core/andon/rule_engine.h"
#include "core/andon/silences.h"

namespace gpuyard::andon {

// Thread: io.
class AlertStore {
 public:
  using OnSaved = std::function<void(const Result<void>&)>;

  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(1);
  static constexpr Duration kSaveRetryDelay = std::chrono::seconds(5);
  // A message waits this long for its write to the disk. After that it is sent all the same.
  static constexpr Duration kSaveTimeout = std::chrono::seconds(5);
  static constexpr std::size_t kMaxUnsavedResolved = 1024;  // resolved alerts not yet on disk
  static constexpr std::size_t kMaxOutboxMessages = 8192;   // more are only sent

  // All outlive the store. The engine and the silences are what is saved after an error.
  AlertStore(Loop&, AlertStorage&, AlertNotifier&, const RuleEngine&, const SilenceTable&);
  AlertStore(const AlertStore&) = delete;
  AlertStore& operator=(const AlertStore&) = delete;

  // Reads the saved state, as often as needed, and calls `on_loaded` once.
  void load(const std::function<void(const SavedAlerts&)>& on_loaded);
  // Goes on without the saved state, which may be read later. The places of messages begin at
  // `first_order`.
  void start_without_saved_state(std::uint64_t first_order);

  // Each adds to the next transaction.
  void stage(Alert);
  void stage(Silence silence) { transaction_.silences.push_back(std::move(silence)); }
  void stage_unsilenced(std::string id) { transaction_.unsilenced.push_back(std::move(id)); }
  void stage_messages(const Alert&, const std::vector<std::string>& sinks);
  // Saves what is staged, then sends its messages. `on_saved` may get Errc::unavailable: in effect,
  // but not stored.
  void flush(OnSaved on_saved = nullptr, const Requester& = Requester::daemon());
  bool has_staged() const { return !transaction_.empty(); }
  void mark_delivered(const std::string& message_id);

  // Returns an alert that is resolved, but not saved yet.
  const Alert* find_unsaved_resolved(std::uint64_t number) const;
  // Returns the messages that their sinks have not accepted yet, by id.
  const std::map<std::string, OutboxMessage>& outbox() const { return outbox_; }
  bool is_loaded() const { return loaded_; }
  bool has_load_failed() const { return load_failed_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  // A transaction that is being saved, and the messages to send once it is.
  struct PendingSave {
    AlertTransaction transaction;
    std::vector<OutboxMessage> messages;
    bool sent = false;
    OnSaved on_saved;
  };
  using PendingSavePtr = std::shared_ptr<PendingSave>;

  void on_loaded(const Result<SavedAlerts>&, const std::function<void(const SavedAlerts&)>&);
  void save(const PendingSavePtr&);
  void on_saved(const PendingSavePtr&, const Result<void>&);
  void send_messages(PendingSave&);
  void record_error(const Error&);
  AlertTransaction full_transaction() const;

  Loop& loop_;
  AlertStorage& storage_;
  AlertNotifier& notifier_;
  const RuleEngine& engine_;
  const SilenceTable& silences_;
  std::map<std::string, OutboxMessage> outbox_;      // not accepted by their sinks yet
  std::uint64_t next_order_ = 1;                     // of the next message
  AlertTransaction transaction_;                     // the next one to be saved
  std::map<std::uint64_t, Alert> unsaved_resolved_;  // resolved, and not saved yet
  bool loaded_ = false;                              // the saved state has been read
  bool load_failed_ = false;                         // at least once
  bool needs_full_save_ = false;                     // the disk lacks something that it was given
  std::uint64_t next_save_ = 0;
  // One timer for each save without a reply.
  std::map<std::uint64_t, Subscription> save_timeouts_;
  std::optional<Error> error_;
  Subscription load_timer_;
  Subscription save_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::andon
