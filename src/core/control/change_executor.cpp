#include "core/control/change_executor.h"

#include <utility>
#include <variant>

#include "base/lifetime.h"
#include "core/control/command_port.h"
#include "core/control/setting_change_executor.h"

namespace gpuyard::control {
namespace {

// Carries out a change without claims: clearing counters, or a reset.
class SingleCommandExecutor final : public ChangeExecutor {
 public:
  SingleCommandExecutor(ExecutorContext& context, const QueuedChange& change)
      : context_(context), change_(change) {}

  void start() override {
    const auto* const clear = std::get_if<ClearEcc>(&change_.task);
    if (clear == nullptr) {
      context_.reset_gpu(change_.dry_run, lifetime_.guard([this](const Result<void>& done) {
        finish(done, ChangeOutcome::reset);
      }));
    } else if (change_.dry_run) {
      finish({}, ChangeOutcome::planned);
    } else {
      context_.send_command(*clear, [this](const CommandReply& reply) {
        finish(reply.failure ? Result<void>(*reply.failure) : Result<void>(),
               ChangeOutcome::cleared);
      });
    }
  }

 private:
  void finish(const Result<void>& done, ChangeOutcome outcome) {
    ChangeResult result;
    if (!done) result.error = done.error();
    if (done) result.outcome = change_.dry_run ? ChangeOutcome::planned : outcome;
    context_.finish(std::move(result));
  }

  ExecutorContext& context_;
  const QueuedChange& change_;
  Lifetime lifetime_;
};

}  // namespace

std::unique_ptr<ChangeExecutor> make_executor(ExecutorContext& context,
                                              const QueuedChange& change) {
  if (const auto kind = kind_of(change.task))
    return std::make_unique<SettingChangeExecutor>(context, change, *kind);
  return std::make_unique<SingleCommandExecutor>(context, change);
}

}  // namespace gpuyard::control
