/// @file
/// The hand: GPUs of this machine, changed by this very process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "gpuyard/error.h"
#include "gpuyard/export.h"
#include "gpuyard/fake_fleet.h"
#include "gpuyard/setting.h"

namespace gpuyard {
inline namespace v0 {

/// Which driver to open.
struct ControlOptions {
  /// Path of libnvidia-ml.so.1. Empty: the simulated one if the environment names a simulated world
  /// (GPUYARD_SIM_WORLD), else what the loader finds.
  std::string library;
  /// How long opening waits for GPUs to open. One that does not is counted, and refuses commands.
  std::chrono::milliseconds deadline{2000};
};

/// The request that a command is for: where from the log may tell it.
struct RequestContext {
  std::string request_id = {};  ///< in the command's log line, if it is not empty
  /// When the request came: the log tells how long the command took since. Empty: now.
  std::optional<std::chrono::steady_clock::time_point> received = {};
};

/// Changes the GPUs of this machine.
///
/// Each GPU has a queue and a worker. Its commands are carried out strictly one after the other, in
/// the order in which they were sent, and GPUs do not wait for each other. Right before the driver
/// is asked, the worker checks permission, support and range; what was set is read back after. Each
/// command that reached the driver leaves one log line (set_log_sink()).
///
/// This is the bare hand: it knows no owner of a setting, keeps no record of what was there before
/// and puts nothing back. The daemon does all of that for whoever asks it. Writing needs
/// CAP_SYS_ADMIN on a real driver; reading needs nothing.
///
/// Copies share the workers and cost what a std::shared_ptr costs. Any thread may call any member
/// function at any time. GPUs are called by their index, 0 to device_count() - 1. A call that never
/// returns from the driver costs its GPU, and leaves a thread behind. The driver does not survive
/// fork() without exec.
///
/// The errors of everything that sends a command, and then nothing is queued: "GPU index {index} is
/// out of range" (Errc::not_found), the queue is full (busy), it is closed or the GPU did not open
/// (unavailable, device_lost). Errors of the command itself keep the driver's meaning and words:
/// denied, invalid (with what is allowed), unsupported, device_lost, ...
class GPUYARD_API Control {
 public:
  /// So long do commands wait where nothing else is said.
  static constexpr std::chrono::milliseconds kDefaultDeadline{5000};

  /// Keeps the GPU initialised while nobody uses it, or not.
  struct SetPersistenceMode {
    bool enabled = false;  ///< what it is to be
  };
  /// Limits the power that the GPU may draw.
  struct SetPowerManagementLimit {
    std::uint32_t power_limit_mw = 0;  ///< milliwatts
  };
  /// Keeps the GPU's clocks between two.
  struct SetGpuLockedClocks {
    std::uint32_t min_clock_mhz = 0;  ///< MHz
    std::uint32_t max_clock_mhz = 0;  ///< MHz
  };
  /// Lets the GPU choose its clocks.
  struct ResetGpuLockedClocks {};
  /// Keeps the memory's clocks between two.
  struct SetMemLockedClocks {
    std::uint32_t min_clock_mhz = 0;  ///< MHz
    std::uint32_t max_clock_mhz = 0;  ///< MHz
  };
  /// Lets the GPU choose the memory's clocks.
  struct ResetMemLockedClocks {};
  /// Reads what the GPU has used since the driver was loaded.
  struct GetTotalEnergyConsumption {};
  /// Says who may compute on the GPU.
  struct SetComputeMode {
    ComputeMode mode = ComputeMode::shared;  ///< who may
  };
  /// Turns the check of the memory on or off, from the GPU's next reset on.
  struct SetEccMode {
    bool enabled = false;  ///< what it is to be
  };
  /// Starts counting memory errors over.
  struct ClearEccErrors {
    EccCounter counter = EccCounter::since_load;  ///< which of them
  };
  /// Asks what the driver says of a setting. Changes nothing.
  struct Look {
    SettingKind setting = SettingKind::power_limit;  ///< which
  };

  /// One thing to do to one GPU.
  using Command =
      std::variant<SetPersistenceMode, SetPowerManagementLimit, SetGpuLockedClocks,
                   ResetGpuLockedClocks, SetMemLockedClocks, ResetMemLockedClocks,
                   GetTotalEnergyConsumption, SetComputeMode, SetEccMode, ClearEccErrors, Look>;

  /// What came of a command that was carried out.
  struct Answer {
    std::optional<std::uint64_t> energy_mj;  ///< of GetTotalEnergyConsumption: millijoules
    std::optional<SettingState> before;      ///< of what sets or looks: as it was found
    std::optional<SettingState> after;       ///< of what sets: as it was read back
  };

  /// Told once what came of a command, on the GPU's own worker, or on the thread that closes: it
  /// keeps that GPU waiting. It may send commands, and let go of the last Control.
  using Handler = std::function<void(const Result<Answer>&)>;

  /// An answer on its way: the receiving end of a reply channel. Whoever drops it before has gone;
  /// the command is carried out all the same, and the log has "Failed to send response to caller".
  class GPUYARD_API PendingAnswer {
   public:
    /// One that was moved from may only be destroyed or assigned to.
    PendingAnswer(PendingAnswer&&) noexcept;
    /// Drops what was waited for before.
    PendingAnswer& operator=(PendingAnswer&&) noexcept;
    /// Drops the answer, if it was not taken.
    ~PendingAnswer();

    /// Waits for the answer, and takes it; once only (Errc::invalid).
    ///
    /// Errors: Errc::timed_out, it is not there yet (wait again); "GPU management task for GPU
    /// {index} terminated" (unavailable), the worker ended first; or the command's own.
    Result<Answer> wait(std::chrono::milliseconds at_most = kDefaultDeadline);

   private:
    friend class Control;
    struct State;
    explicit PendingAnswer(std::unique_ptr<State>);
    std::unique_ptr<State> state_;
  };

  /// Opens the driver and every GPU; hold on to it.
  ///
  /// Errors as of Monitor::open(). That this process may not write is no error before it does.
  static Result<Control> open(const ControlOptions& options = {});
  /// Controls a fake fleet instead. `options.library` means nothing then.
  static Result<Control> open(const FakeFleet& fleet, const ControlOptions& options = {});

  /// Shares the workers.
  Control(const Control&);
  /// Lets go of those before, and shares these.
  Control& operator=(const Control&);
  /// The last one closes.
  ~Control();

  /// GPUs found by opening. Does not wait.
  std::uint32_t device_count() const;

  /// Queues a command and returns. Success means sent: what comes of it only the log tells.
  Result<void> send_command_nonblocking(std::uint32_t gpu, const Command& command,
                                        const RequestContext& context = {}) const;
  /// Queues a command and returns. Success means sent, and that `handler` will be told, if there is
  /// one.
  Result<void> send_command(std::uint32_t gpu, const Command& command, Handler handler,
                            const RequestContext& context = {}) const;
  /// Queues a command and returns. Success means sent; the answer can be waited for.
  Result<PendingAnswer> send_command(std::uint32_t gpu, const Command& command,
                                     const RequestContext& context = {}) const;
  /// Queues a command and waits for its own result.
  ///
  /// Errc::timed_out: the deadline passed first. The command may still be carried out.
  Result<Answer> send_command_blocking(std::uint32_t gpu, const Command& command,
                                       std::chrono::milliseconds deadline = kDefaultDeadline,
                                       const RequestContext& context = {}) const;

  /// SetPersistenceMode, and waits.
  Result<void> set_persistence_mode(std::uint32_t gpu, bool enabled) const;
  /// SetPowerManagementLimit, and waits. Milliwatts.
  Result<void> set_power_management_limit(std::uint32_t gpu, std::uint32_t power_limit_mw) const;
  /// SetGpuLockedClocks, and waits. MHz.
  Result<void> set_gpu_locked_clocks(std::uint32_t gpu, std::uint32_t min_clock_mhz,
                                     std::uint32_t max_clock_mhz) const;
  /// ResetGpuLockedClocks, and waits.
  Result<void> reset_gpu_locked_clocks(std::uint32_t gpu) const;
  /// SetMemLockedClocks, and waits. MHz.
  Result<void> set_mem_locked_clocks(std::uint32_t gpu, std::uint32_t min_clock_mhz,
                                     std::uint32_t max_clock_mhz) const;
  /// ResetMemLockedClocks, and waits.
  Result<void> reset_mem_locked_clocks(std::uint32_t gpu) const;
  /// SetComputeMode, and waits.
  Result<void> set_compute_mode(std::uint32_t gpu, ComputeMode mode) const;
  /// SetEccMode, and waits.
  Result<void> set_ecc_mode(std::uint32_t gpu, bool enabled) const;
  /// ClearEccErrors, and waits.
  Result<void> clear_ecc_errors(std::uint32_t gpu, EccCounter counter) const;

  /// The power that the GPU draws at this instant, in milliwatts; where the driver does not tell
  /// it, the average of the last second. Does not wait for commands.
  ///
  /// Errors: "GPU index {index} is out of range", "feature not supported on this platform: {key}",
  /// "NVML query failed: {why}".
  Result<std::uint64_t> get_instant_power_mw(std::uint32_t gpu) const;
  /// What the GPU has used since the driver was loaded, in millijoules.
  Result<std::uint64_t> get_total_energy_consumption(std::uint32_t gpu) const;
  /// What the driver says of a setting: what it is, by default, and what is allowed.
  Result<SettingState> look(std::uint32_t gpu, SettingKind setting) const;

  /// Takes no more commands, lets healthy GPUs carry out what is queued for at most a second, and
  /// tells whoever waits for the rest that the worker has terminated. The second time, or while
  /// another does, it comes back at once.
  void close() const;

 private:
  struct State;
  explicit Control(std::shared_ptr<const State>);
  std::shared_ptr<const State> state_;
};

}  // namespace v0
}  // namespace gpuyard
