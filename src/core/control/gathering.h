// What came of all the changes of one request, until the last is over or its caller has waited long
// enough.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/loop.h"
#include "control/order.h"

namespace gpuyard::control {

class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  using Changes = std::vector<Change>;
  using Heard = std::function<void(const Result<Changes>&)>;
  // Takes back one change that worked, of which these were the claims before, and says how that
  // ended.
  using TakeBack = std::function<void(const Change&, std::vector<Claim> before,
                                      std::function<void(const Change&)> done)>;

  // `take_back` is for a request that wants all or none. Tells `heard` once, never inside a call
  // from outside.
  Gathering(Loop&, std::size_t changes, TakeBack take_back, Heard heard);

  // For Order::done of the change at this place.
  std::function<void(const Change&, std::vector<Claim>)> place(std::size_t index);
  // From now on the caller waits, for so long.
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
