// A client's side of the shared file: mapped read-only, checked once, read without locks. Part of
// the simulated NVML, so it needs only libc and the C++ runtime.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/model.h"
#include "sim/world_file.h"

namespace gpuyard::sim {

// The driver and one of its GPUs at the same moment.
struct RecordPair {
  DriverRecord driver;
  GpuRecord gpu;
};

// Whether the driver counts as open while the reader lives: a driver's reset is refused meanwhile.
enum class OpenMode { file, driver };

// A GPU is named by its place, which it keeps for the world's life, plugged in or not;
// DriverRecord::order has its index in the driver. Any number of threads and processes may read one
// world. No call blocks: a copy that the writer overwrote is tried again, at most kMaxAttempts
// times.
class WorldReader {
 public:
  // Checks the file: owner, magic, layout version, size, boot, fleet. Errc::not_found: there is no
  // world; Errc::denied: its owner is neither root nor this user; Errc::unavailable: it is from
  // another boot; Errc::invalid: this program does not understand it. Only is_alive() says whether
  // its world server still lives. A file that is truncated later counts as a dead world (but
  // truncating it during a read kills the reader; only its owner can do that).
  static Result<WorldReader> open(const std::string& directory, OpenMode mode = OpenMode::file);

  WorldReader(WorldReader&& other) noexcept;
  WorldReader& operator=(WorldReader&&) = delete;
  ~WorldReader();

  std::uint32_t gpu_count() const { return gpu_count_; }
  std::int32_t server_pid() const { return server_pid_; }
  std::uint64_t generation() const { return is_whole() ? load_word(file_->generation) : 0; }

  // The world server published within the last 2 s.
  bool is_alive() const;

  // `gpu` < gpu_count(), which counts the unplugged ones too.
  const Identity& identity(std::uint32_t gpu) const { return identities_[gpu]; }
  const Model& model(std::uint32_t gpu) const { return *models_[gpu]; }

  // The directory with which it was opened; it holds the world server's socket.
  const std::string& directory() const { return directory_; }

  // One GPU as it is now; empty if the world server is dead or stopped.
  std::optional<GpuRecord> record(std::uint32_t gpu) const;
  std::optional<DriverRecord> driver() const;
  std::optional<RecordPair> record_pair(std::uint32_t gpu) const;

  // The processes of the GPU whose record was just read, in the order in which they came. Empty,
  // not an empty list, if the world server kept changing the table. Allocates.
  std::optional<std::vector<ProcessUse>> processes(std::uint32_t gpu, const GpuRecord&) const;

  // Setter calls, resets and driver changes of all GPUs, the oldest first. writes() returns at most
  // the last kMaxWrites of write_count().
  std::uint64_t write_count() const { return is_whole() ? load_word(file_->writes.count) : 0; }
  std::vector<WriteRecord> writes() const;

  // Events of all GPUs since the one with this sequence number (0: since the world began), the
  // oldest first; those overwritten meanwhile are missing. event_count() is the newest one's
  // number.
  std::uint64_t event_count() const { return is_whole() ? load_word(file_->events.count) : 0; }
  std::vector<EventRecord> events_after(std::uint64_t sequence) const;

 private:
  static constexpr int kMaxAttempts = 1000;

  WorldReader(std::string directory, UniqueFd fd, const WorldFile* file, const WorldHeader& header)
      : directory_(std::move(directory)),
        fd_(std::move(fd)),
        file_(file),
        gpu_count_(header.gpu_count),
        server_pid_(header.server_pid) {}
  Result<void> resolve_models();
  // Whether the file still has its size: reading a mapping beyond the file's end is a SIGBUS.
  bool is_whole() const;
  template <class T, class Copy>
  std::optional<T> copy_slot(Copy&& copy) const;

  std::string directory_;

  UniqueFd fd_;  // open while the driver is, and holds the lock that shows it
  const WorldFile* file_;
  std::uint32_t gpu_count_;
  std::int32_t server_pid_;
  std::array<Identity, kMaxGpus> identities_{};
  std::array<const Model*, kMaxGpus> models_{};
};

}  // namespace gpuyard::sim
