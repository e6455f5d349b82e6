#include "io/store/state_store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::store {

StateStore::StateStore(Worker& worker, Worker& read_worker, std::string path,
                       StateDb::Migrations migrations, StateDb::DirectoryCheck directory_check)
    : worker_(worker),
      read_worker_(read_worker),
      path_(path),
      database_(
          std::make_shared<StateDb>(std::move(path), migrations, std::move(directory_check))) {}

StateStore::~StateStore() {
  lifetime_.end();
  if (!waiting_->works.empty()) start_commit();
}

bool StateStore::run(const Requester& requester, StateDb::Work work, OnDone on_done,
                     Durability durability) {
  if (!waiting_->queue_limit.try_acquire(requester)) return false;
  if (work) {
    waiting_->writes = true;
    waiting_->durability = std::max(waiting_->durability, durability);
  }
  waiting_->works.push_back(std::move(work));
  waiting_->done.push_back(std::move(on_done));
  if (!committing_) start_commit();
  return true;
}

void StateStore::check_integrity() {
  run(Requester::daemon(), &store::check_integrity, [](const Result<void>&) {});
}

// If the worker has no room for the group, it waits until more work comes or the store ends.
void StateStore::start_commit() {
  const auto group = waiting_;
  const bool posted =
      worker_.post([group, database = database_,
                    on_result = lifetime_.guard([this, group](const CommitResult& commit_result) {
                      on_commit(*group, commit_result);
                    })]() -> Worker::Completion {
        CommitResult commit_result{database->commit(group->works, group->durability),
                                   database->corruption_notes()};
        return [commit_result = std::move(commit_result), on_result] { on_result(commit_result); };
      });
  if (!posted) return;
  committing_ = true;
  waiting_ = std::make_shared<CommitGroup>();
}

void StateStore::on_commit(const CommitGroup& group, const CommitResult& commit_result) {
  committing_ = false;
  for (std::size_t i = corruption_notes_.size(); i < commit_result.corruption_notes.size(); ++i) {
    log::warning("{}", commit_result.corruption_notes[i]);
  }
  corruption_notes_ = commit_result.corruption_notes;
  const auto error =
      commit_result.result ? std::nullopt : std::optional<Error>(commit_result.result.error());
  // Work without a write does not prove that the disk works again.
  if (error || group.writes) update_store_error(error);
  if (!waiting_->works.empty()) start_commit();
  for (const OnDone& on_done : group.done) on_done(commit_result.result);
}

void StateStore::update_store_error(const std::optional<Error>& error) {
  if (error && error != store_error_) log::warning("{}: {}", path_, error->text());
  if (store_error_ && !error) log::info("writing to {} again", path_);
  store_error_ = error;
}

std::vector<std::string> StateStore::notes() const {
  std::vector<std::string> notes = corruption_notes_;
  if (store_error_) {
    notes.push_back(fmt::format("cannot write to {}: {}; retrying", path_, store_error_->text()));
  }
  return notes;
}

}  // namespace gpuyard::store
