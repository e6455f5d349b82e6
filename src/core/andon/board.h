// The daemon's Andon board: rules looked at with every snapshot, alerts that are kept on disk
// before anybody is told, and who is told what. Knows no sink and no lease. Lives on the io thread.
//
// FactBook makes of a snapshot the facts that rules look at: a number or nothing, which trips
// nothing. Engine knows which rule is pending, firing or over for which GPU. What a tick changes
// and the words about it are one entry in state.db; people are told once that is synced
// (docs/decisions/009). The words stay in an outbox until their sink has taken them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "andon/alert.h"
#include "andon/engine.h"
#include "base/loop.h"
#include "base/result.h"

namespace gpuyard::andon {

// Who carries words to sinks.
class Messenger {
 public:
  virtual ~Messenger() = default;
  // The sinks that are to hear that it fires: those that its rule names, or all of its level.
  virtual std::vector<std::string> sinks_for(const Alert&, const Rule&) = 0;
  // The sink that runs the rule's command; "": it has none.
  virtual std::string command_of(const Rule&) = 0;
  // What is to be said to a sink of an alert, firing or resolved; nobody is told yet.
  virtual Outgoing words_for(const Alert&, const std::string& sink) = 0;
  // Says it, now or when the sink can; Board::delivered() is told then, never inside the call.
  virtual void send(const Outgoing&) = 0;
};

// Why a GPU gets no new work.
struct Quarantine {
  std::string rule;
  std::uint64_t alert = 0;
  std::string text;
};

class Board {
 public:
  using Answer = std::function<void(Result<Alert>)>;
  using Silenced = std::function<void(Result<Silence>)>;
  using Done = std::function<void(const Result<void>&)>;

  static constexpr Duration kLoadAgain = std::chrono::seconds(1);
  // A disk that says nothing for so long holds up no alert any more.
  static constexpr Duration kLoadPatience = std::chrono::seconds(10);
  static constexpr Duration kSaveAgain = std::chrono::seconds(5);
  // Nor does one that does not answer while it is written to.
  static constexpr Duration kSavePatience = std::chrono::seconds(5);
  static constexpr std::size_t kMostOutgoing = 8192;  // kept on the disk; more is only sent
  static constexpr std::size_t kMostOver = 1024;      // that wait for a disk which fails

  // These outlive it.
  Board(Loop&, AlertArchive&, Messenger&, Rules);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Reads what was kept; nothing is looked at before.
  void start();

  void on_event(const DeviceEvent& event) { engine_.on_event(event); }
  void tick(const Facts&);
  // Other rules from now on.
  void replace(Rules);
  // A sink has taken it, or never will.
  void delivered(const std::string& outgoing);

  // Each answers once it is on the disk, never inside the call. Errors: not_found, conflict (it is
  // over), unavailable (in force, but not kept), busy (too many silences).
  void acknowledge(std::uint64_t number, Acknowledgement, const Answer&);
  void silence(Silence, const Silenced&);
  void unsilence(const std::string& id, const Done&);
  bool history(HistoryQuestion question, std::function<void(Result<std::vector<Alert>>)> answered) {
    return archive_.history(std::move(question), std::move(answered));
  }

  // One listener, told of every alert that fires, gets worse, is acknowledged or is over, at once.
  void on_change(std::function<void(const Alert&)> told) { told_ = std::move(told); }

  const Engine& engine() const { return engine_; }
  const SilenceBook& silences() const { return silences_; }
  std::optional<Quarantine> quarantine(const DeviceId&) const;
  const std::map<std::string, Outgoing>& outgoing() const { return outgoing_; }
  bool looking() const { return open_; }
  std::optional<Error> trouble() const { return trouble_; }

 private:
  using Kept = std::function<void(const Result<void>&)>;

  // What is being kept, and what is to be said once it is.
  struct Keeping {
    AlertEntry entry;
    std::vector<Outgoing> words;
    bool said = false;
    Kept kept;
  };
  using KeepingPtr = std::shared_ptr<Keeping>;

  void load();
  void on_loaded(Result<andon::Kept>);
  void merge(const andon::Kept&);
  void open_without_what_was_kept();
  void open();
  void take(const std::vector<Change>&);
  void tell_of_firing();
  void tell_new_sinks();
  void run_command(const Alert&);
  void tell(const Alert&, const std::vector<std::string>& sinks);
  void quarantine_anew();
  void keep(Alert);
  void flush(Kept kept = nullptr);
  void save(const KeepingPtr&);
  void say(Keeping&);
  void fail(const Error&);
  void on_kept(const KeepingPtr&, const Result<void>&);
  AlertEntry everything() const;

  Loop& loop_;
  AlertArchive& archive_;
  Messenger& messenger_;
  Engine engine_;
  SilenceBook silences_;
  std::map<std::string, Outgoing> outgoing_;
  std::map<DeviceId, Quarantine> quarantined_;
  AlertEntry entry_;                     // to be kept
  std::uint64_t next_order_ = 1;         // of what is to be said
  std::map<std::uint64_t, Alert> over_;  // resolved, and not kept yet
  std::function<void(const Alert&)> told_ = [](const Alert&) {};
  bool open_ = false;
  bool loaded_ = false;           // what was kept is known
  bool owes_everything_ = false;  // the disk does not hold what it was given
  std::uint64_t next_keeping_ = 0;
  std::map<std::uint64_t, Subscription> patience_;  // with a disk that does not answer
  std::optional<Error> trouble_;
  Subscription load_timer_;
  Subscription open_timer_;
  Subscription save_timer_;
  Lifetime here_;
};

}  // namespace gpuyard::andon
