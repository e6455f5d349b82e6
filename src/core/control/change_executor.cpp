#include "core/control/change_executor.h"

#include <utility>

#include "core/control/setting_change_executor.h"

namespace gpuyard::control {
namespace {

// The plan of a change without claims: clearing counters, or a reset.
class SingleCommandExecutor final : public Plan {
 public:
  SingleCommandExecutor(ExecutorContext& context, const QueuedChange& order)
      : context_(context), pending_(order) {}

  void begin() override {
    const auto* const clear = std::get_if<ClearEcc>(&pending_.job);
    if (clear == nullptr) {
      context_.reset(pending_.dry_run,
                     [this](const Result<void>& done) { end(done, Outcome::reset); });
    } else if (pending_.dry_run) {
      end({}, Outcome::planned);
    } else {
      context_.command(*clear, [this](const Heard& heard) {
        const auto error = heard.error();
        end(error ? Result<void>(*error) : Result<void>(), Outcome::cleared);
      });
    }
  }

 private:
  void end(const Result<void>& done, Outcome outcome) {
    Change change;
    if (!done) change.error = done.error();
    if (done) change.outcome = pending_.dry_run ? Outcome::planned : outcome;
    context_.over(std::move(change));
  }

  ExecutorContext& context_;
  const QueuedChange& pending_;
};

}  // namespace

std::unique_ptr<Plan> make_plan(ExecutorContext& context, const QueuedChange& order) {
  if (const auto kind = kind_of(order.job))
    return std::make_unique<SettingChangeExecutor>(context, order, *kind);
  return std::make_unique<SingleCommandExecutor>(context, order);
}

void Resetting::begin(const DeviceInfo& gpu, bool dry_run, std::function<bool()> quiet, Then then) {
  if (closed_) {
    return answer_soon(std::move(then), Error{Errc::unavailable, "gpuyard is shutting down"});
  }
  if (under_way()) {
    return answer_soon(std::move(then), Error{Errc::busy, "another GPU is being reset"});
  }
  auto allowed = commander_.may_reset(gpu);
  if (!allowed || dry_run) return answer_soon(std::move(then), std::move(allowed));
  state_ = State::waiting;
  gpu_ = gpu;
  quiet_ = std::move(quiet);
  then_ = std::move(then);
  patience_ = loop_.call_after(kPatience, [this] {
    end(Error{
        Errc::busy,
        "a command for another GPU is still in progress, and a reset makes all GPUs unavailable"});
  });
  soon_ = loop_.call_at(loop_.now(), [this] { go_on(); });
}

void Resetting::go_on() {
  if (state_ != State::waiting || closed_ || !quiet_()) return;
  // A process may have begun to use the GPU meanwhile.
  if (auto allowed = commander_.may_reset(gpu_); !allowed) return end(allowed);
  state_ = State::resetting;
  patience_.reset();
  commander_.reset(gpu_, here_.guard([this](const Result<void>& done) { end(done); }));
}

void Resetting::end(const Result<void>& done) {
  state_ = State::none;
  patience_.reset();
  if (const Then then = std::exchange(then_, nullptr)) then(done);
}

void Resetting::answer_soon(Then then, Result<void> answer) {
  loop_.post(here_.guard([then = std::move(then), answer = std::move(answer)] { then(answer); }));
}

}  // namespace gpuyard::control
