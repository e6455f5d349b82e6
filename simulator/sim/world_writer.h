// The keeper's end of the shared file.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sim/world.h"
#include "sim/world_file.h"

namespace gpuyard::sim {

// Owns the mapping, and the file's name as long as that is still its own. One thread.
class WorldWriter {
 public:
  // Publishes `world` as generation 1 in `<directory>/state`, replacing what was there. The file
  // gets its name when it is complete. The fleet's size and identities stay as they are now.
  static Result<WorldWriter> create(const std::string& directory, const World& world);

  WorldWriter(WorldWriter&& other) noexcept;
  WorldWriter& operator=(WorldWriter&&) = delete;
  ~WorldWriter();  // removes the name

  void publish(const World&);

  // The processes of all GPUs; publish() leaves them alone.
  void publish_processes(const World&);

  // With their sequence number and time, which are given here.
  void log_write(WriteRecord);
  void log_event(EventRecord);

  // Some program has initialised NVML in this world, and not yet shut it down or ended.
  bool driver_is_open() const;

  // False once the file was removed or replaced: nobody can find this world any more.
  bool still_named() const;

 private:
  WorldWriter(std::string path, WorldFile* file, UniqueFd descriptor, std::uint64_t inode)
      : path_(std::move(path)), file_(file), descriptor_(std::move(descriptor)), inode_(inode) {}

  std::string path_;
  WorldFile* file_;
  UniqueFd descriptor_;
  std::uint64_t inode_;
};

}  // namespace gpuyard::sim
