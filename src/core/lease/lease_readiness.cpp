#include "core/lease/lease_readiness.h"

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::lease {
namespace {

// The refusal of a claim of this many GPUs, with advice; 0: without advice.
Error allocated_error(Allocator allocator, std::size_t gpus) {
  Error error{Errc::conflict,
              fmt::format("{} allocates the GPUs of this machine, and gpuyard only observes them",
                          words_of(allocator).name)};
  if (gpus == 0) return error;
  switch (allocator) {
    case Allocator::slurm:
      error.hint = fmt::format("gpuyard run -n {} --through slurm -- COMMAND", gpus);
      break;
    case Allocator::kubernetes:
      error.cause = fmt::format("run the work in a pod that requests {} of them", gpus);
      break;
  }
  return error;
}

}  // namespace

void LeaseReadiness::begin_recovering() {
  ++generation_;
  phase_ = Phase::recovering;
}

void LeaseReadiness::open(TimePoint now) {
  phase_ = Phase::open;
  opened_at_ = now;
  if (store_error_) log::info("leases: the journal can be read and written again");
  store_error_.reset();
}

void LeaseReadiness::fail(const Error& why) {
  if (!store_error_) log::error("leases: no lease can be granted now: {}", why.text());
  store_error_ = why;
  ++generation_;
  if (phase_ != Phase::idle) phase_ = Phase::loading;
}

std::optional<Error> LeaseReadiness::grant_error() const {
  if (store_error_) {
    return Error{Errc::unavailable,
                 fmt::format("leases cannot be granted or changed now, because the journal cannot "
                             "be written: {}; held leases stay held",
                             store_error_->text())};
  }
  if (phase_ == Phase::open) return std::nullopt;
  // The leases are checked once the GPUs are listed.
  if (phase_ == Phase::recovering && !gpus_.is_complete()) return claim_error();
  return Error{
      Errc::unavailable,
      phase_ == Phase::idle
          ? "the daemon is shutting down"
          : "the leases from before the restart are still being checked; try again in a moment"};
}

// Stored leases may change before it is known which of their processes still live.
std::optional<Error> LeaseReadiness::change_error() const {
  return phase_ == Phase::recovering ? std::nullopt : grant_error();
}

std::optional<Error> LeaseReadiness::claim_error() const {
  if (auto why = change_error()) return why;
  if (gpus_.is_complete()) return std::nullopt;
  return Error{Errc::unavailable,
               "the GPUs are not known yet, or the driver is missing (run gpuyard doctor)"};
}

std::optional<Error> LeaseReadiness::observe_only_error(std::size_t gpus) const {
  const auto allocator = gpus_.allocator();
  return allocator ? std::optional(allocated_error(*allocator, gpus)) : std::nullopt;
}

}  // namespace gpuyard::lease
