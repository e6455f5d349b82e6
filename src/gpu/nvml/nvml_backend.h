// NVIDIA GPUs through NVML: the real library, the simulated one, or a table filled by a test.
#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "gpu/device/backend.h"
#include "gpu/nvml/api.h"
#include "gpu/nvml/event_receiver.h"
#include "gpu/nvml/gpu_reader.h"

namespace gpuyard::nvml {

// NVML's state does not survive fork(): make the backend after the last fork without exec.
// Thread: any, as Backend says.
class NvmlBackend final : public Backend {
 public:
  explicit NvmlBackend(Library library) : library_(std::move(library)), events_(library_.api) {}
  ~NvmlBackend() override;

  Result<DriverSession> start() override;
  DeviceInfo open(std::uint32_t index) override;
  Sample read(const DeviceId&, ProbeSet) override;
  Result<std::optional<DeviceEvent>> next_event(Duration timeout) override;
  Result<void> check_control() override;
  Result<SettingState> read_setting(const DeviceId&, SettingKind) override;
  Result<void> apply(const DeviceId&, const Setting&) override;
  Result<void> clear_ecc(const DeviceId&, EccCounter) override;
  Result<std::int64_t> total_energy(const DeviceId&) override;

  // Ends the NVML session; does nothing if none is open.
  void shutdown();

 private:
  struct OpenDevice {
    std::uint32_t index;
    DeviceHandle handle;
    std::shared_ptr<GpuReader> reader;
    std::optional<SettingState> power_limit_range = {};  // once it is known as a whole
  };

  ReturnCode initialise();
  Result<unsigned> open_and_count();
  Result<OpenDevice> find_open(const DeviceId&) const;  // Errc::not_found: it is not open
  void keep_power_limit_range(const DeviceId&, SettingState);

  const Library library_;
  mutable Mutex session_mutex_;  // held during init and shutdown, never during another call
  bool initialised_ GUARDED_BY(session_mutex_) = false;
  mutable Mutex devices_mutex_;
  std::map<DeviceId, OpenDevice> open_devices_ GUARDED_BY(devices_mutex_);
  EventReceiver events_;  // used by the event thread
};

// Loads the library (see load_library) and makes a backend with it.
Result<std::unique_ptr<Backend>> make_backend(const std::string& path);

}  // namespace gpuyard::nvml
