// The setter's threads, one for each GPU, because a driver call may never return. Each waits for
// changes on a socket of its own, whose other end the daemon has: a change goes from the daemon's
// io thread to the GPU's thread, and no thread between them hands it over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/device/backend.h"

namespace gpuyard::driver {

// Thread: the setter's main thread.
class ChangeWorkers {
 public:
  // Carries out a change on the GPU of that index.
  using Executor =
      std::function<CommandReply(Backend&, std::uint32_t index, const CommandRequest&)>;
  // Called on the GPU's own thread, and not once the ChangeWorkers have ended.
  using OnReply = std::function<void(const CommandReply&)>;
  // The daemon has sent something else than a change.
  using OnInvalid = std::function<void(const Error&)>;

  static Result<std::unique_ptr<ChangeWorkers>> start(const std::shared_ptr<Backend>& backend,
                                                      std::uint32_t gpu_count,
                                                      const Executor& executor,
                                                      const OnReply& on_reply,
                                                      const OnInvalid& on_invalid);
  // Takes no more changes. Leaves a thread behind that a driver call holds for longer than
  // CommandWorkers::kShutdownGrace.
  ~ChangeWorkers();
  ChangeWorkers(const ChangeWorkers&) = delete;
  ChangeWorkers& operator=(const ChangeWorkers&) = delete;

  // Gives away the daemon's ends of the sockets, by the index of the GPU.
  std::vector<UniqueFd> take_sockets() { return std::move(sockets_); }

 private:
  class Worker;
  ChangeWorkers() = default;

  std::vector<std::shared_ptr<Worker>> workers_;
  std::vector<UniqueFd> sockets_;
};

}  // namespace gpuyard::driver
