// Reads what srun writes to stderr, and finds out why a command did not start or how it ended.
// srun's exit code alone does not say it: 1 is also that of many commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::cli::slurm {

class SrunMessages {
 public:
  // Takes the next bytes. Without a terminal the command's own stderr is among them.
  void add(std::string_view bytes);

  // Why Slurm did not start the command. Empty: it started it, or srun has said nothing.
  std::optional<Error> refusal() const;
  // Whether the job was ended because its time was over.
  bool is_time_over() const { return time_over_; }
  // Whether the command was started and then ended by a fault or a signal.
  bool has_task_ended() const { return task_ended_; }
  // Whether SIGINT ended the command.
  bool is_interrupted() const { return interrupted_; }
  // Whether the node does not have the program that srun was to start.
  bool is_program_missing() const { return program_missing_; }

 private:
  void read_line(std::string_view line);

  std::string line_;   // the one that is not complete yet; its end is dropped if it is too long
  std::string error_;  // the last that srun has printed, if the command has not ended after it
  bool time_over_ = false;
  bool task_ended_ = false;
  bool interrupted_ = false;
  bool program_missing_ = false;
};

}  // namespace gpuyard::cli::slurm
