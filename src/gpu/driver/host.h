// The driver-host: the child process that alone loads a driver. It holds no lock, no listening
// socket and no file of the daemon, so that a driver call that never returns can be left behind
// with it.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "device/backend.h"

namespace gpuyard::driver {

using MakeBackend = std::function<Result<std::unique_ptr<Backend>>()>;

// Serves requests on `socket` until the daemon closes its end. Says Hello first; without a driver
// it says why and ends.
void serve_host(UniqueFd socket, const MakeBackend&);

// The process around serve_host: dies with its parent and leaves without waiting for stuck threads.
[[noreturn]] void run_host_process(const MakeBackend&);

// The descriptor on which a driver-host process finds its socket.
inline constexpr int kHostSocket = 3;

}  // namespace gpuyard::driver
