// Whether leases can be granted, changed or claimed now, and if not, why: the stored leases are
// still being read or checked, the storage has failed, the GPUs are not listed, or an external
// allocator has them. Pure state, which LeaseRecovery updates.
//
// Thread: io. The pool outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "core/lease/gpu_pool.h"

namespace gpuyard::lease {

class LeaseReadiness {
 public:
  enum class Phase : std::uint8_t {
    idle,        // not started, or stopped
    loading,     // the stored leases are not known yet
    recovering,  // the processes of the stored leases are being observed
    open,
  };

  explicit LeaseReadiness(const GpuPool& gpus) : gpus_(gpus) {}

  Phase phase() const { return phase_; }
  bool is_open() const { return phase_ == Phase::open; }
  TimePoint opened_at() const { return opened_at_; }
  // Replies to an earlier generation are ignored: the leases have been read again since.
  std::uint64_t generation() const { return generation_; }
  bool has_loaded() const { return has_loaded_; }
  bool has_store_error() const { return store_error_.has_value(); }

  // Return why nothing is granted, no lease can be changed, and no claim is accepted now, not even
  // one that would wait; nothing if that is not so.
  std::optional<Error> grant_error() const;
  std::optional<Error> change_error() const;
  std::optional<Error> claim_error() const;
  // The error while an external allocator has the GPUs, with advice for a claim of `gpus` GPUs; 0:
  // without.
  std::optional<Error> observe_only_error(std::size_t gpus = 0) const;

  void stop() { phase_ = Phase::idle; }
  void begin_loading() { phase_ = Phase::loading; }
  void begin_recovering();
  void finish_loading() { has_loaded_ = true; }
  void open(TimePoint now);
  // It is not known what the disk holds. A stopped one stays stopped.
  void fail(const Error&);

 private:
  const GpuPool& gpus_;
  Phase phase_ = Phase::idle;
  bool has_loaded_ = false;
  std::optional<Error> store_error_;
  std::uint64_t generation_ = 0;
  TimePoint opened_at_{};
};

}  // namespace gpuyard::lease
