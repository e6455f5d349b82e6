// Recent operations: those that wait, those that run, and the last that are over. Lives on the io
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "core/control/change_request.h"

namespace gpuyard::control {

enum class OperationState : std::uint8_t { queued, running, done, failed };
BOOST_DESCRIBE_ENUM(OperationState, queued, running, done, failed)

struct Operation {
  OperationState state = OperationState::queued;
  std::string id = {};
  std::string action;
  std::string asked_by;
  std::string request_id;
  TimePoint received{};
  WallTime asked_at{};
  std::optional<Duration> took = {};
  Change change = {};
};

class Operations {
 public:
  // An id is valid for one run of the daemon: it contains `epoch`.
  explicit Operations(std::string epoch) : epoch_(std::move(epoch)) {}

  // Adds a queued operation, and gives it an id.
  const Operation& add(Operation);
  void running(std::string_view id);
  void over(std::string_view id, const Change&, TimePoint now);

  const Operation* find(std::string_view id) const;
  const std::deque<Operation>& all() const { return operations_; }

  // How many operations are kept. Fewer can be under way for all GPUs at once, so that a dropped
  // operation is always over.
  static constexpr std::size_t kKept = 8192;

 private:
  Operation* find_mine(std::string_view id);

  std::string epoch_;
  std::uint64_t last_ = 0;
  std::deque<Operation> operations_;
};

// Collects the results of all changes of one request, until the last is over or its caller has
// waited long enough.
class ChangeCollector : public std::enable_shared_from_this<ChangeCollector> {
 public:
  using Changes = std::vector<Change>;
  using Heard = std::function<void(const Result<Changes>&)>;
  // Takes back one change that worked, restores the claims of `before`, and tells how that ended.
  using TakeBack = std::function<void(const Change&, std::vector<Claim> before,
                                      std::function<void(const Change&)> done)>;

  // `take_back` is set for an atomic request. Calls `heard` once, never inside a call from outside.
  ChangeCollector(Loop&, std::size_t changes, TakeBack take_back, Heard heard);

  // Returns QueuedChange::done for the change at this place.
  std::function<void(const Change&, std::vector<Claim>)> place(std::size_t index);
  // Answers the caller with Errc::timed_out after `patience` from now.
  void wait(Duration patience);

 private:
  struct Place {
    std::optional<Change> change;
    std::vector<Claim> claims_before;
  };

  void on_over(std::size_t index, const Change&, std::vector<Claim> claims_before);
  void on_taken_back(std::size_t index, const Change&);
  void roll_back();
  void tell();
  void give_up();

  Loop& loop_;
  std::vector<Place> places_;
  TakeBack take_back_;
  Heard heard_;
  std::size_t missing_;
  Subscription patience_;
};

}  // namespace gpuyard::control
