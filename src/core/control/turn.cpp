#include "control/turn.h"

#include "control/claims_turn.h"

namespace gpuyard::control {
namespace {

Change failed(Error error) {
  Change change;
  change.error = std::move(error);
  return change;
}

Change ended(Outcome outcome) {
  Change change;
  change.outcome = outcome;
  return change;
}

class ClearTurn final : public Turn {
 public:
  ClearTurn(Table& table, const Order& order) : table_(table), order_(order) {}

  void begin() override {
    if (order_.dry_run) return table_.over(ended(Outcome::planned));
    table_.command(std::get<ClearEcc>(order_.job), [this](const Heard& heard) {
      auto error = heard.error();
      table_.over(error ? failed(*std::move(error)) : ended(Outcome::cleared));
    });
  }

 private:
  Table& table_;
  const Order& order_;
};

class ResetTurn final : public Turn {
 public:
  ResetTurn(Table& table, const Order& order) : table_(table), order_(order) {}

  void begin() override {
    table_.reset(order_.dry_run, [this](const Result<void>& done) {
      if (!done) return table_.over(failed(done.error()));
      table_.over(ended(order_.dry_run ? Outcome::planned : Outcome::reset));
    });
  }

 private:
  Table& table_;
  const Order& order_;
};

}  // namespace

std::unique_ptr<Turn> make_turn(Table& table, const Order& order) {
  if (const auto kind = kind_of(order.job))
    return std::make_unique<ClaimsTurn>(table, order, *kind);
  if (std::holds_alternative<ClearEcc>(order.job)) return std::make_unique<ClearTurn>(table, order);
  return std::make_unique<ResetTurn>(table, order);
}

}  // namespace gpuyard::control
