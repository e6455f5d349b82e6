// The driver-host: the child process that loads a driver in order to read. It changes nothing; only
// the setter does. It holds no lock, no listening socket and no file of the daemon, so it can be
// left behind with a driver call that never returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/device/backend.h"

namespace gpuyard::driver {

using MakeBackend = std::function<Result<std::unique_ptr<Backend>>()>;

// Serves requests on `socket` until the daemon closes its end. Sends Hello first; without a driver,
// Hello says why and the host ends.
void serve_driver_host(UniqueFd socket, const MakeBackend&);

// The process around serve_driver_host(): ends with its parent and does not wait for stuck threads.
[[noreturn]] void run_driver_host_process(const MakeBackend&);

// Makes this process a child that only its daemon ends and that keeps these capabilities at most
// (base/capabilities.h), and takes its socket. Ends the process if it has none, because a user has
// started it.
UniqueFd begin_child_process(std::string_view verb, std::uint64_t capabilities);

// The descriptor that a driver-host process has its socket on.
inline constexpr int kDriverHostSocket = 3;

}  // namespace gpuyard::driver
