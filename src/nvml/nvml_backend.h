// NVIDIA GPUs through NVML: the real library, the simulated one, or a table filled by a test.
#pragma once

#include <map>
#include <mutex>

#include "base/published.h"
#include "device/backend.h"
#include "nvml/api.h"

namespace gpuyard::nvml {

// NVML's state does not survive fork(): make one after the last fork without exec.
class NvmlBackend final : public Backend {
 public:
  explicit NvmlBackend(Library library) : library_(std::move(library)) {}
  ~NvmlBackend() override { shutdown(); }

  Result<Fleet> enumerate() override;
  Sample read(const DeviceId&, ProbeSet) override;

  // Ends the NVML session if one is open; harmless otherwise, and the second time.
  void shutdown();
  bool initialised() const;

 private:
  using Handles = std::map<DeviceId, DeviceHandle>;

  ReturnCode initialise();
  Result<unsigned> open_and_count();

  Library library_;
  mutable std::mutex session_mutex_;  // init and shutdown, never held around another call
  bool initialised_ = false;
  Published<Handles> handles_;
};

// Loads the library (see load_library) and makes a backend of it.
Result<std::unique_ptr<Backend>> make_backend(const std::string& path);

}  // namespace gpuyard::nvml
