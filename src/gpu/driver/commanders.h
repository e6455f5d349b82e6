// A queue and a thread for each GPU that change it, because a driver call may never return. Beside
// Readers: a GPU is read and changed at the same time. The driver-host and libgpuyard's Control
// command through this same class.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/backend.h"

namespace gpuyard::driver {

// What became of a command that was under way, or still waited, when its GPU's thread ended:
// "GPU management task for GPU {index} terminated", Errc::unavailable.
Error terminated(std::uint32_t index);

// Any thread may call anything.
class Commanders {
 public:
  // `answered` is told once of each command that was accepted, on its GPU's own thread; or, if it
  // was terminated, on the one that ends the Commanders. It may send more, and may end them too.
  using Answered = std::function<void(CommandReply)>;

  // GPUs are called by their index.
  Commanders(std::shared_ptr<Backend>, std::uint32_t gpu_count, const Answered&);
  // close()
  ~Commanders();
  Commanders(const Commanders&) = delete;
  Commanders& operator=(const Commanders&) = delete;

  std::uint32_t gpu_count() const { return static_cast<std::uint32_t>(workers_.size()); }

  // Commands for one GPU are carried out one after the other, in the order in which they were sent;
  // GPUs do not wait for each other. One that was received at no time was received now.
  // Errors, and then nothing is queued: Errc::not_found (no such GPU), busy (kMaxQueued wait
  // already), unavailable (closed).
  Result<void> send(std::uint32_t index, CommandRequest);

  // Takes no more commands, and lets GPUs carry out what is queued for at most kFarewell. Whatever
  // is left then is answered as terminated(). A thread whose call does not return is left behind
  // with what it uses. Whoever calls it while, or after, another does comes back at once.
  void close();

  static constexpr std::size_t kMaxQueued = 64;
  static constexpr Duration kFarewell = std::chrono::seconds(1);

 private:
  class Worker;
  std::shared_ptr<Backend> backend_;  // so that the last release is not on a thread of its own
  std::vector<std::shared_ptr<Worker>> workers_;
  std::atomic<bool> closed_ = false;
};

}  // namespace gpuyard::driver
