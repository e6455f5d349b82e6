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

/// Shares out GPUs: each has one holder at a time, and who waits is served in the order of asking.
///
/// A claim gets all its GPUs at once or waits with none. A GPU that is released while somebody
/// waits is that one's, and nobody who comes later gets ahead: neither a claim of fewer GPUs nor
/// try_claim().
///
/// The pool knows only the leases that it gave out in this process. To share GPUs with other
/// programs, ask the daemon, which sees what runs on them.
///
/// Copies share the GPUs and cost what a std::shared_ptr costs; leases and claims that wait live on
/// without any. Any thread may call any member function at any time. Only claim() waits.
class GPUYARD_API Pool {
 public:
  /// So many GPUs may be in a pool.
  static constexpr std::size_t kMostGpus = 256;

  /// A GPU that is handed out.
  struct Gpu {
    std::uint32_t index = 0;  ///< as its owner calls it; there may be gaps
    std::string vendor;       ///< "NVIDIA"
    std::string name;         ///< product name

    /// Equal when every field is.
    friend bool operator==(const Gpu&, const Gpu&) = default;
  };

  /// A GPU of the pool, and whether somebody has it.
  struct LeaseSnapshot {
    std::string vendor;       ///< as of Gpu
    std::string name;         ///< as of Gpu
    std::uint32_t index = 0;  ///< as of Gpu
    bool leased = false;      ///< somebody has it

    /// Equal when every field is.
    friend bool operator==(const LeaseSnapshot&, const LeaseSnapshot&) = default;
  };

  /// GPUs that are held: nobody else has them before this is dropped, on any thread.
  class GPUYARD_API Lease {
   public:
    /// One that was moved from holds nothing.
    Lease(Lease&&) noexcept;
    /// Releases what was held before.
    Lease& operator=(Lease&&) noexcept;
    /// Releases the GPUs.
    ~Lease();

    /// What is held, in the pool's order; nothing after release().
    const std::vector<Gpu>& gpus() const { return gpus_; }
    /// The index of the first. There has to be one.
    std::uint32_t index() const { return gpus_.front().index; }
    /// Rises from grant to grant of a pool, and is never the same twice.
    std::uint64_t fence() const { return fence_; }
    /// As if it was dropped. The second time does nothing. Whoever is next may be told here.
    void release();

   private:
    friend class Pool;
    struct Ground;
    Lease(std::shared_ptr<Ground>, std::vector<Gpu>, std::uint64_t ticket, std::uint64_t fence);
    std::shared_ptr<Ground> ground_;
    std::vector<Gpu> gpus_;
    std::uint64_t ticket_ = 0;
    std::uint64_t fence_ = 0;
  };

  /// Told once what came of a claim: the GPUs, or none, when it was cancelled or could never be
  /// served. It runs on the thread whose call brought that about - who claims, releases or cancels
  /// - before that call comes back, and may call the pool itself. Claims that are served by what a
  /// handler does are told when it has come back, one after the other: a handler that waits for
  /// another one would wait for ever.
  ///
  /// It should not throw. What it throws is logged as an error and goes no further; what it has not
  /// kept by then is released, and everybody else is told as ever.
  using Handler = std::function<void(std::optional<Lease>)>;

  /// A claim whose handler may not have been told yet. Dropping it cancels.
  class GPUYARD_API PendingLease {
   public:
    /// One that was moved from cancels nothing.
    PendingLease(PendingLease&&) noexcept;
    /// Cancels what waited before.
    PendingLease& operator=(PendingLease&&) noexcept;
    /// Cancels.
    ~PendingLease();

    /// Waits no more: the handler is told none here, unless it was told already. What it was given
    /// stays its own.
    ///
    /// Afterwards the handler does not run and will not run, and what it had captured is gone: if
    /// another thread is just telling it, that is waited for. So hold no lock that it wants, and no
    /// GPU that it waits for; two handlers that cancel each other's claims wait for ever. Only
    /// called by the handler itself, this comes back while it runs.
    void cancel();

   private:
    friend class Pool;
    PendingLease(std::shared_ptr<Lease::Ground>, std::uint64_t ticket);
    std::shared_ptr<Lease::Ground> ground_;
    std::uint64_t ticket_ = 0;
  };

  /// A pool of no GPUs.
  Pool();
  /// A pool of these. Errc::invalid: two have one index, or there are more than kMostGpus.
  static Result<Pool> of(std::vector<Gpu> gpus);
  /// A pool of the GPUs that the monitor found and that did open. None is no error.
  static Result<Pool> of(const Monitor& monitor);

  /// Waits for GPUs until all of them are this caller's.
  ///
  /// None: the deadline passed, it was asked to stop, or there never are so many, which is said at
  /// once.
  std::optional<Lease> claim(std::chrono::milliseconds deadline, const std::stop_token& stop = {},
                             unsigned gpus = 1) const;
  /// The same without waiting: comes back at once, and tells the handler when it is served. An
  /// empty handler claims nothing.
  [[nodiscard]] PendingLease claim(Handler handler, unsigned gpus = 1) const;
  /// Does not wait. None: too few are free, or somebody waits for them.
  std::optional<Lease> try_claim(unsigned gpus = 1) const;

  /// How many claims wait now. try_claim() is never among them.
  std::size_t pending_claimers() const;
  /// GPUs in the pool, held or not.
  std::size_t capacity() const;
  /// Every GPU, in the order in which they were given. It is what was so at one moment of the call.
  std::vector<LeaseSnapshot> snapshot_leases() const;

 private:
  explicit Pool(std::shared_ptr<Lease::Ground>);
  std::shared_ptr<Lease::Ground> ground_;
};

/// The rule for work that uses spare GPUs only: whoever waits comes first.
///
/// A helper asks before each piece of its work, and so gives back within one piece what somebody
/// waits for.
class GPUYARD_API HelperArbiter {
 public:
  /// Decides over this pool's GPUs.
  explicit HelperArbiter(Pool pool) : pool_(std::move(pool)) {}

  /// What the helper may use for its next piece of work; none: step back, and ask again later.
  ///
  /// Looks how many wait, anew each time. Somebody does: what is held is released. Else it is what
  /// is held, or what try_claim() gives.
  std::optional<Pool::Lease> decide(std::optional<Pool::Lease> held = {}, unsigned gpus = 1) const;

 private:
  Pool pool_;
};

}  // namespace v0
}  // namespace gpuyard
