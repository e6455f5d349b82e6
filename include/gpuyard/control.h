/// @file
/// Changes the settings of this machine's GPUs, from within this process.
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

/// The driver to open.
struct ControlOptions {
  /// Path of libnvidia-ml.so.1. Empty: the simulated library if the environment names a simulated
  /// world (GPUYARD_SIM_WORLD), else the library that the loader finds.
  std::string library;
  /// The longest wait of open() for GPUs to open. A GPU that does not is counted, and refuses
  /// commands.
  std::chrono::milliseconds deadline{2000};
};

/// The request that a command belongs to, for the log.
struct RequestContext {
  std::string request_id = {};  ///< in the command's log line, if it is not empty
  /// When the request came: the log gives the time that the command took from then on. Empty: now.
  std::optional<std::chrono::steady_clock::time_point> received = {};
};

/// Changes the GPUs of this machine.
///
/// Each GPU has a queue and a worker thread. The worker carries out the GPU's commands strictly one
/// after the other, in the order in which they were sent. GPUs do not wait for each other. Right
/// before the driver call the worker checks permission, support and range; afterwards it reads the
/// setting back. Each command that reached the driver leaves one log line (set_log_sink()).
///
/// This class knows no owner of a setting, keeps no record of earlier values and restores nothing.
/// The daemon does all of that for its clients. Writing needs CAP_SYS_ADMIN on a real driver;
/// reading needs no privilege.
///
/// Copies share the workers and cost what a std::shared_ptr costs. Any thread may call any member
/// function at any time. GPUs are named by their index, 0 to device_count() - 1. A driver call that
/// never returns makes its GPU unusable and leaves a thread behind. The driver does not survive
/// fork() without exec.
///
/// Every function that sends a command can fail so, and then queues nothing: "GPU index {index} is
/// out of range" (Errc::not_found), the queue is full (busy), it is closed or the GPU did not open
/// (unavailable, device_lost). Errors of the command itself keep the driver's meaning and words:
/// denied, invalid (with what is allowed), unsupported, device_lost, ...
class GPUYARD_API Control {
 public:
  /// The longest wait of a call for its command unless the caller gives a deadline.
  static constexpr std::chrono::milliseconds kDefaultDeadline{5000};

  /// Says whether the driver keeps the GPU initialised while no process uses it.
  struct SetPersistenceMode {
    bool enabled = false;  ///< the new mode
  };
  /// Limits the power that the GPU may draw.
  struct SetPowerManagementLimit {
    std::uint32_t power_limit_mw = 0;  ///< milliwatts
  };
  /// Locks the GPU's clock between two limits.
  struct SetGpuLockedClocks {
    std::uint32_t min_clock_mhz = 0;  ///< MHz
    std::uint32_t max_clock_mhz = 0;  ///< MHz
  };
  /// Lets the GPU choose its clocks.
  struct ResetGpuLockedClocks {};
  /// Locks the memory's clock between two limits.
  struct SetMemLockedClocks {
    std::uint32_t min_clock_mhz = 0;  ///< MHz
    std::uint32_t max_clock_mhz = 0;  ///< MHz
  };
  /// Lets the GPU choose the memory's clocks.
  struct ResetMemLockedClocks {};
  /// Reads the energy that the GPU has used since the driver was loaded.
  struct GetTotalEnergyConsumption {};
  /// Says how many processes may compute on the GPU.
  struct SetComputeMode {
    ComputeMode mode = ComputeMode::shared;  ///< the new mode
  };
  /// Turns the error checking of the memory (ECC) on or off, from the GPU's next reset on.
  struct SetEccMode {
    bool enabled = false;  ///< the new mode
  };
  /// Sets a counter of memory errors to 0.
  struct ClearEccErrors {
    EccCounter counter = EccCounter::since_load;  ///< which counter
  };
  /// Reads a setting from the driver. Changes nothing.
  struct Look {
    SettingKind setting = SettingKind::power_limit;  ///< which setting
  };
  /// The name to use. The symbols of this version of the library contain `Look`.
  using ReadSetting = Look;

  /// One command to one GPU.
  using Command =
      std::variant<SetPersistenceMode, SetPowerManagementLimit, SetGpuLockedClocks,
                   ResetGpuLockedClocks, SetMemLockedClocks, ResetMemLockedClocks,
                   GetTotalEnergyConsumption, SetComputeMode, SetEccMode, ClearEccErrors, Look>;

  /// The result of a command that was carried out.
  struct Answer {
    std::optional<std::uint64_t> energy_mj;  ///< GetTotalEnergyConsumption: millijoules
    std::optional<SettingState> before;      ///< setters and ReadSetting: the state found
    std::optional<SettingState> after;       ///< setters: the state read back
  };

  /// Receives a command's result, once. Runs on the GPU's worker, or on the thread that closes;
  /// that GPU waits meanwhile. The handler may send commands and destroy the last Control.
  using Handler = std::function<void(const Result<Answer>&)>;

  /// An answer that is to come: the receiving end of a reply channel. If the caller drops it
  /// earlier, the command is carried out all the same, and the log says "Failed to send response to
  /// caller".
  class GPUYARD_API PendingAnswer {
   public:
    /// A moved-from object may only be destroyed or assigned to.
    PendingAnswer(PendingAnswer&&) noexcept;
    /// Drops the answer that it waited for before.
    PendingAnswer& operator=(PendingAnswer&&) noexcept;
    /// Drops the answer, if it was not taken.
    ~PendingAnswer();

    /// Waits for the answer, and takes it. It can be taken only once (then Errc::invalid).
    ///
    /// Errors: Errc::timed_out, there is no answer yet (wait again); "GPU management task for GPU
    /// {index} terminated" (unavailable), the worker ended first; or the command's own error.
    Result<Answer> wait(std::chrono::milliseconds at_most = kDefaultDeadline);

   private:
    friend class Control;
    struct State;
    explicit PendingAnswer(std::unique_ptr<State>);
    std::unique_ptr<State> state_;
  };

  /// Opens the driver and every GPU. Keep the result: opening is slow.
  ///
  /// Errors: those of Monitor::open(). A missing permission to write is an error only when a
  /// command writes.
  static Result<Control> open(const ControlOptions& options = {});
  /// Controls a fake fleet instead. `options.library` is ignored.
  static Result<Control> open(const FakeFleet& fleet, const ControlOptions& options = {});

  /// Shares the workers.
  Control(const Control&);
  /// Gives up its own workers, and shares the others.
  Control& operator=(const Control&);
  /// The last copy closes.
  ~Control();

  /// The number of GPUs that open() found. Does not wait.
  std::uint32_t device_count() const;

  /// Queues a command and returns. Success means sent; only the log tells the result.
  Result<void> send_command_nonblocking(std::uint32_t gpu, const Command& command,
                                        const RequestContext& context = {}) const;
  /// Queues a command and returns. Success means sent, and that `handler`, if not empty, will be
  /// called.
  Result<void> send_command(std::uint32_t gpu, const Command& command, Handler handler,
                            const RequestContext& context = {}) const;
  /// Queues a command and returns. Success means sent; the answer can be waited for.
  Result<PendingAnswer> send_command(std::uint32_t gpu, const Command& command,
                                     const RequestContext& context = {}) const;
  /// Queues a command and waits for its result.
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

  /// The power that the GPU draws at this instant, in milliwatts; where the driver does not report
  /// it, the average of the last second. Does not wait for commands.
  ///
  /// Errors: "GPU index {index} is out of range", "feature not supported on this platform: {key}",
  /// "NVML query failed: {why}".
  Result<std::uint64_t> get_instant_power_mw(std::uint32_t gpu) const;
  /// The energy that the GPU has used since the driver was loaded, in millijoules.
  Result<std::uint64_t> get_total_energy_consumption(std::uint32_t gpu) const;
  /// A setting as the driver reports it: its value, its default and the allowed range.
  Result<SettingState> read_setting(std::uint32_t gpu, SettingKind setting) const;
  /// The former name of read_setting(), for one version.
  [[deprecated("use read_setting()")]]
  Result<SettingState> look(std::uint32_t gpu, SettingKind setting) const;

  /// Takes no more commands, and lets healthy GPUs carry out queued commands for at most 1 s.
  /// Callers of the other commands get the error that the worker has terminated. Returns at once if
  /// it was called before or another thread is closing.
  void close() const;

 private:
  struct State;
  explicit Control(std::shared_ptr<const State>);
  std::shared_ptr<const State> state_;
};

}  // namespace v0
}  // namespace gpuyard
