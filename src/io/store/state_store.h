// state.db, or usage.db, as the io thread sees it: work that waits is done together, in one
// transaction and one sync of the disk (group commit).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/worker.h"
#include "store/state_db.h"

namespace gpuyard::store {

class StateStore {
 public:
  using Done = std::function<void(const Result<void>&)>;

  static constexpr std::size_t kMostWaiting = 1024;
  // Questions among it: whoever only reads takes no room from what must be kept.
  static constexpr std::size_t kMostAsked = 32;

  // The worker outlives this.
  StateStore(Worker& worker, std::string path, StateDb::Layout,
             StateDb::Place place = &check_local);
  // Hands over what still waits; the worker's own end does it.
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // `work` stands on what it owns. done() hears how the transaction ended, on the loop. False, and
  // nothing happens: too much waits already. Work that was asked for first is done first.
  // `normal`: done() may hear of it before a power cut would spare it; the next full one sees to
  // that.
  bool run(StateDb::Work work, Done done, Durability = Durability::full);

  // The same with a question, whose answer comes of query(database), a Result<Answer>.
  template <class Answer>
  bool ask(std::function<Result<Answer>(Database&)> query,
           std::function<void(Result<Answer>)> answered) {
    if (waiting_->questions >= kMostAsked) return false;
    const auto answer = std::make_shared<Answer>();
    const bool taken = run(
        [answer, query = std::move(query)](Database& database) -> Result<void> {
          auto got = query(database);
          if (!got) return std::move(got).error();
          *answer = *std::move(got);
          return {};
        },
        [answer, answered = std::move(answered)](const Result<void>& done) {
          if (!done) return answered(done.error());
          answered(std::move(*answer));
        });
    // Unless it was handed over at once.
    if (taken && !waiting_->works.empty()) ++waiting_->questions;
    return taken;
  }

  // What was to be kept last was not.
  bool failing() const { return trouble_.has_value(); }
  // What is wrong with the file now, and what was; in sentences.
  std::vector<std::string> notes() const;

 private:
  struct Group {
    std::vector<StateDb::Work> works;
    std::vector<Done> done;
    std::size_t questions = 0;
    Durability durability = Durability::normal;  // the highest that one of them asks for
  };
  struct Outcome {
    Result<void> result;
    std::vector<std::string> put_aside;
  };

  void hand_over();
  void on_committed(const Group&, const Outcome&);

  Worker& worker_;
  std::string path_;
  std::shared_ptr<StateDb> database_;  // the worker's own
  std::shared_ptr<Group> waiting_ = std::make_shared<Group>();
  bool under_way_ = false;
  std::optional<Error> trouble_;
  std::vector<std::string> put_aside_;
  std::shared_ptr<StateStore*> self_ = std::make_shared<StateStore*>(this);
};

}  // namespace gpuyard::store
