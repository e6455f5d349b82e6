// A file that must survive a power cut: state.db or usage.db. Its one owner, on a worker's thread,
// opens it, brings its layout up to date, and puts a corrupt one aside. Rooms add tables by a step
// in state_layout.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/worker.h"
#include "store/sqlite.h"

namespace gpuyard::store {

// Whether a directory is on a disk of this machine. On a network file system other machines write
// to the same file, and locks and syncs do not do what they promise: a grant could be lost or given
// twice.

// The name of a network file system, for people; nothing for a local one. `magic` is statfs's
// f_type; `type` is what the mount says, and decides where many share one magic (FUSE).
std::optional<std::string_view> network_file_system(std::uint32_t magic, std::string_view type);

// The type of the mount of a device, "fuse.sshfs", in the text of /proc/self/mountinfo; "" if there
// is none.
std::string_view mount_type(std::string_view mountinfo, unsigned major, unsigned minor);

// Errc::denied if the directory is on a network file system; the message says what to do. It is no
// error if that cannot be found out.
Result<void> check_local(const std::string& directory);

// Stands between the name of a corrupt file and the time when it was put aside.
inline constexpr std::string_view kPutAside = ".corrupt-";

class StateDb {
 public:
  // Runs inside a transaction.
  using Work = std::function<Result<void>(Database&)>;

  // The steps of state_layout.h that lead to the tables in it; they outlive every StateDb.
  using Layout = std::span<const char* const>;

  // The most corrupt files that are kept: a disk that corrupts one after the other must not fill
  // with them.
  static constexpr std::size_t kMostPutAside = 4;

  // Checks whether a directory is a place for the file.
  using Place = std::function<Result<void>(const std::string& directory)>;

  StateDb(std::string path, Layout layout, Place place = &check_local)
      : path_(std::move(path)), layout_(layout), place_(std::move(place)) {}

  // Runs all works in one transaction. The first error undoes them all and is returned. The
  // database is then closed and opened anew at the next call, because its content is no longer
  // certain.
  Result<void> commit(std::span<const Work> works, Durability = Durability::full);

  // Sentences that say where corrupt files were put.
  const std::vector<std::string>& put_aside() const { return put_aside_; }

 private:
  Result<void> open();
  Result<void> open_or_put_aside();
  Result<void> put_aside(const Error& why);

  std::string path_;
  Layout layout_;
  Place place_;
  std::optional<Database> database_;
  std::vector<std::string> put_aside_;
};

// state.db, or usage.db, as the io thread sees it: waiting work is done together, in one
// transaction and one sync of the disk (group commit).

class StateStore {
 public:
  using Done = std::function<void(const Result<void>&)>;

  static constexpr std::size_t kMostWaiting = 1024;
  // The most questions among the waiting work: clients that only read take no room from what must
  // be kept.
  static constexpr std::size_t kMostAsked = 32;

  // The worker outlives this.
  StateStore(Worker& worker, std::string path, StateDb::Layout,
             StateDb::Place place = &check_local);
  // Hands over what still waits; the worker does it before it ends.
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // `work` uses only what it owns. done() hears how the transaction ended, on the loop. False if
  // too much waits already; nothing happens then. Work is done in the order in which it was asked
  // for. With `normal`, done() may hear of it before it would survive a power cut; the next full
  // commit makes it survive.
  bool run(StateDb::Work work, Done done, Durability = Durability::full);

  // Asks a question likewise: query(database) gives the answer.
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
    // Not counted if it was handed over at once.
    if (taken && !waiting_->works.empty()) ++waiting_->questions;
    return taken;
  }

  // Whether the last transaction failed.
  bool failing() const { return trouble_.has_value(); }
  // Sentences that say what is wrong with the file now, and what was.
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
  std::shared_ptr<StateDb> database_;  // used by the worker's thread only
  std::shared_ptr<Group> waiting_ = std::make_shared<Group>();
  bool under_way_ = false;
  std::optional<Error> trouble_;
  std::vector<std::string> put_aside_;
  Lifetime here_;
};

}  // namespace gpuyard::store
