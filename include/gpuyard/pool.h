/// @file
/// The pool: GPUs shared out among the threads of one process, in fair order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gpuyard/error.h"
#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

class Monitor;

/// Shares out GPUs: each has one holder at a time, and waiting claims are served in the order in
/// which they came.
///
/// A claim gets all its GPUs at once or waits with none. A GPU that is released while a claim waits
/// goes to that claim, and no later one gets ahead: neither a claim of fewer GPUs nor try_claim().
///
/// The pool knows only the leases that it gave out in this process. To share GPUs with other
/// programs, ask the daemon, which sees what runs on them.
///
/// Copies share the GPUs and cost what a std::shared_ptr costs; leases and waiting claims live on
/// when the last copy is gone. Any thread may call any member function at any time. Only claim()
/// waits.
class GPUYARD_API Pool {
 public:
  /// The most GPUs that a pool can have.
  static constexpr std::size_t kMostGpus = 256;

  /// A GPU that is handed out.
  struct Gpu {
    std::uint32_t index = 0;  ///< the owner's number of it; there may be gaps
    std::string vendor;       ///< "NVIDIA"
    std::string name;         ///< product name

    /// Equal when every field is.
    friend bool operator==(const Gpu&, const Gpu&) = default;
  };

  /// A GPU of the pool, and whether it is leased.
  struct LeaseSnapshot {
    std::string vendor;       ///< as in Gpu
    std::string name;         ///< as in Gpu
    std::uint32_t index = 0;  ///< as in Gpu
    bool leased = false;      ///< a lease holds it

    /// Equal when every field is.
    friend bool operator==(const LeaseSnapshot&, const LeaseSnapshot&) = default;
  };

  /// GPUs that are held: no other lease has them until this is dropped, on any thread.
  class GPUYARD_API Lease {
   public:
    /// A moved-from lease holds nothing.
    Lease(Lease&&) noexcept;
    /// Releases the GPUs that it held before.
    Lease& operator=(Lease&&) noexcept;
    /// Releases the GPUs.
    ~Lease();

    /// The held GPUs, in the pool's order; none after release().
    const std::vector<Gpu>& gpus() const { return gpus_; }
    /// The index of the first held GPU. There must be one.
    std::uint32_t index() const { return gpus_.front().index; }
    /// A number that rises with every grant of a pool and is never used twice.
    std::uint64_t fence() const { return fence_; }
    /// Releases the GPUs. A second call does nothing. The handler of the next claim may run within
    /// this call.
    void release();

   private:
    friend class Pool;
    struct SharedState;
    Lease(std::shared_ptr<SharedState>, std::vector<Gpu>, std::uint64_t ticket,
          std::uint64_t fence);
    std::shared_ptr<SharedState> state_;
    std::vector<Gpu> gpus_;
    std::uint64_t ticket_ = 0;
    std::uint64_t fence_ = 0;
  };

  /// Receives the result of a claim, once: the GPUs, or none if it was cancelled or could never be
  /// served. It runs on the thread whose call caused that - a claim, a release or a cancel - before
  /// that call returns, and may call the pool itself. The handlers of claims that a handler's own
  /// calls serve run after it has returned, one after the other: a handler that waits for another
  /// one would never return.
  ///
  /// It should not throw. An exception is logged as an error and goes no further; GPUs that the
  /// handler has not kept by then are released, and all other handlers run as usual.
  using Handler = std::function<void(std::optional<Lease>)>;

  /// A claim whose handler may not have run yet. Dropping it cancels the claim.
  class GPUYARD_API PendingLease {
   public:
    /// A moved-from object cancels nothing.
    PendingLease(PendingLease&&) noexcept;
    /// Cancels the claim that it held before.
    PendingLease& operator=(PendingLease&&) noexcept;
    /// Cancels.
    ~PendingLease();

    /// Cancels the claim: the handler runs here without GPUs, unless it has run already. GPUs that
    /// it was given stay its own.
    ///
    /// When this returns, the handler is not running and will not run, and its captures are
    /// destroyed: if it is running on another thread, this call waits for it. Therefore hold no
    /// lock that the handler takes, and no GPU that it waits for; two handlers that cancel each
    /// other's claims deadlock. Only when the handler itself calls this does it return while the
    /// handler runs.
    void cancel();

   private:
    friend class Pool;
    PendingLease(std::shared_ptr<Lease::SharedState>, std::uint64_t ticket);
    std::shared_ptr<Lease::SharedState> state_;
    std::uint64_t ticket_ = 0;
  };

  /// A pool of no GPUs.
  Pool();
  /// A pool of these GPUs. Errc::invalid: two have the same index, or there are more than
  /// kMostGpus.
  static Result<Pool> of(std::vector<Gpu> gpus);
  /// A pool of the GPUs that the monitor found and opened. A pool of none is no error.
  static Result<Pool> of(const Monitor& monitor);

  /// Waits until the caller has all the GPUs that it claims.
  ///
  /// Empty: the deadline passed, a stop was requested, or the pool is too small (returned at once).
  std::optional<Lease> claim(std::chrono::milliseconds deadline, const std::stop_token& stop = {},
                             unsigned gpus = 1) const;
  /// The same without waiting: returns at once, and calls the handler when the claim is served. An
  /// empty handler claims nothing.
  [[nodiscard]] PendingLease claim(Handler handler, unsigned gpus = 1) const;
  /// Does not wait. Empty: too few GPUs are free, or a claim waits for them.
  std::optional<Lease> try_claim(unsigned gpus = 1) const;

  /// The number of claims that wait now. try_claim() never counts.
  std::size_t pending_claimers() const;
  /// The number of GPUs in the pool, held or not.
  std::size_t capacity() const;
  /// Every GPU, in the order in which they were given. All are as they were at one moment of the
  /// call.
  std::vector<LeaseSnapshot> snapshot_leases() const;

 private:
  explicit Pool(std::shared_ptr<Lease::SharedState>);
  std::shared_ptr<Lease::SharedState> state_;
};

/// The rule for work that uses only spare GPUs: waiting claims come first.
///
/// A helper calls decide() before each piece of work, and so releases within one piece the GPUs
/// that a claim waits for.
class GPUYARD_API HelperArbiter {
 public:
  /// Decides over this pool's GPUs.
  explicit HelperArbiter(Pool pool) : pool_(std::move(pool)) {}

  /// Returns the lease for the helper's next piece of work; empty: do no work, and call again
  /// later.
  ///
  /// Checks for waiting claims at each call. If one waits, `held` is released. Else it returns
  /// `held`, or what try_claim() gives.
  std::optional<Pool::Lease> decide(std::optional<Pool::Lease> held = {}, unsigned gpus = 1) const;

 private:
  Pool pool_;
};

}  // namespace v0
}  // namespace gpuyard
