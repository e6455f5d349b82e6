#include "store/state_store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::store {

StateStore::StateStore(Worker& worker, std::string path, StateDb::Layout layout,
                       StateDb::Place place)
    : worker_(worker),
      path_(path),
      database_(std::make_shared<StateDb>(std::move(path), layout, std::move(place))) {}

StateStore::~StateStore() {
  self_.reset();
  if (!waiting_->works.empty()) hand_over();
}

bool StateStore::run(StateDb::Work work, Done done, Durability durability) {
  if (waiting_->works.size() >= kMostWaiting) return false;
  waiting_->works.push_back(std::move(work));
  waiting_->done.push_back(std::move(done));
  waiting_->durability = std::max(waiting_->durability, durability);
  if (!under_way_) hand_over();
  return true;
}

// A worker that has no room for it leaves it waiting, until there is more or the end.
void StateStore::hand_over() {
  const auto group = waiting_;
  const bool posted = worker_.post(
      [group, database = database_, this, alive = std::weak_ptr(self_)]() -> Worker::Afterwards {
        Outcome outcome{database->commit(group->works, group->durability), database->put_aside()};
        return [group, outcome = std::move(outcome), this, alive] {
          if (!alive.expired()) on_committed(*group, outcome);
        };
      });
  if (!posted) return;
  under_way_ = true;
  waiting_ = std::make_shared<Group>();
}

void StateStore::on_committed(const Group& group, const Outcome& outcome) {
  under_way_ = false;
  for (std::size_t i = put_aside_.size(); i < outcome.put_aside.size(); ++i) {
    log::warning("{}", outcome.put_aside[i]);
  }
  put_aside_ = outcome.put_aside;
  const auto trouble = outcome.result ? std::nullopt : std::optional<Error>(outcome.result.error());
  if (trouble && trouble != trouble_) log::warning("{}: {}", path_, trouble->message);
  if (trouble_ && !trouble) log::info("{} is kept again", path_);
  trouble_ = trouble;
  if (!waiting_->works.empty()) hand_over();
  for (const Done& done : group.done) done(outcome.result);
}

std::vector<std::string> StateStore::notes() const {
  std::vector<std::string> notes = put_aside_;
  if (trouble_) {
    notes.push_back(
        fmt::format("{} cannot be kept now: {}; trying again", path_, trouble_->message));
  }
  return notes;
}

}  // namespace gpuyard::store
