// Energy as text for people.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "cli/read/json_output.h"
#include "faces/protocol/energy.h"

namespace gpuyard::cli {

// Returns the daemon's counts: a line for each GPU, their sum, and what is wrong.
Printable energy_table(const protocol::EnergyReport&);

// Says what a command used: "gpuyard: 12.3 s, 3.4 kJ, ..." and a line for each GPU.
Printable energy_summary(const MeasuredCommand&);

// Runs a command as if the shell had started it: with our terminal, input and output, and with the
// signals that are meant for it.
class ForegroundCommand {
 public:
  // Blocks signals until run() takes them. Threads that start later inherit the mask.
  ForegroundCommand();
  ~ForegroundCommand();
  ForegroundCommand(const ForegroundCommand&) = delete;
  ForegroundCommand& operator=(const ForegroundCommand&) = delete;

  // Waits for the command's end and returns its exit code as a shell says it: 128 + N after signal
  // N; 127 or 126, after a complaint, if it could not be started.
  int run(const std::vector<std::string>& words) const;

 private:
  sigset_t original_mask_{};
};

}  // namespace gpuyard::cli
