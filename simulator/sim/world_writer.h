// The world server's side of the shared file.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/world.h"
#include "sim/world_file.h"

namespace gpuyard::sim {

// Owns the mapping, and the file's name while that still refers to its own file. One thread.
class WorldWriter {
 public:
  // Publishes `world` as generation 1 in `<directory>/state`, replacing an older file. The file
  // gets its name when it is complete. The fleet's size and identities are fixed from now on.
  static Result<WorldWriter> create(const std::string& directory, const World& world);

  WorldWriter(WorldWriter&& other) noexcept;
  WorldWriter& operator=(WorldWriter&&) = delete;
  ~WorldWriter();  // removes the name

  void publish(const World&);

  // Publishes the processes of all GPUs; publish() does not.
  void publish_processes(const World&);

  // Append an entry, with sequence number and time set here.
  void log_write(WriteRecord);
  void log_event(EventRecord);

  // Whether a program has initialised NVML in this world, and neither shut it down nor ended.
  bool is_driver_open() const;

  // False once the file was removed or replaced: no client can find this world any more.
  bool is_linked() const;

 private:
  WorldWriter(std::string path, WorldFile* file, UniqueFd descriptor, std::uint64_t inode)
      : path_(std::move(path)), file_(file), descriptor_(std::move(descriptor)), inode_(inode) {}

  std::string path_;
  WorldFile* file_;
  UniqueFd descriptor_;
  std::uint64_t inode_;
};

}  // namespace gpuyard::sim
