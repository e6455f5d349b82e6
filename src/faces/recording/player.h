// Plays a recording: the state of its GPUs at a position in it. Knows no clock and no thread.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "faces/recording/recording_line.h"
#include "gpu/device/device.h"

namespace gpuyard::recording {

// One GPU at the player's position.
struct PlayedGpu {
  GpuIdentity identity;
  bool present = false;  // in the recording, at this moment
  DeviceCondition condition = DeviceCondition::responsive;
  std::string why;
  Sample sample;
};

// Thread: any, one at a time.
class Player {
 public:
  // Reads the whole file once, to report its errors now: Errc::invalid with file and line. An
  // unfinished last line, left by a recorder that was killed, is ignored and reported by
  // truncated_line().
  static Result<Player> open(const std::string& path);

  const Header& header() const { return header_; }
  Duration length() const { return length_; }
  // Returns the number of the line in which the file breaks off; 0: it is whole.
  std::size_t truncated_line() const { return truncated_line_; }

  // Plays everything up to and including `position`; to go back it starts again at the beginning.
  // Errors: the file has changed meanwhile.
  Result<void> seek(Duration position);

  // Returns every GPU that occurs anywhere in the recording, each once, in the order of occurrence.
  const std::vector<PlayedGpu>& gpus() const { return gpus_; }

 private:
  explicit Player(std::string path) : path_(std::move(path)) {}

  Result<void> scan();
  Result<void> rewind();
  // Returns the next whole line; empty: there is none.
  Result<std::optional<std::string>> next_line();
  Result<void> play(const RecordingLine&);
  void add_gpus(const std::vector<GpuIdentity>&);
  PlayedGpu* find_gpu(std::uint32_t index);
  Error line_error(const std::string& what) const;

  std::string path_;
  std::ifstream file_;
  std::vector<char> buffer_ = std::vector<char>(kMaxLineBytes);
  std::size_t line_number_ = 0;
  std::size_t last_line_ = 0;  // number of the last whole line
  std::size_t truncated_line_ = 0;
  Header header_;
  Duration length_{0};
  Duration position_{-1};
  std::optional<RecordingLine> lookahead_;  // read, and later than the position
  std::vector<PlayedGpu> gpus_;
};

}  // namespace gpuyard::recording
