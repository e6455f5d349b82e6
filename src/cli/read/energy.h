// Energy as people read it.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "cli/read/answers.h"
#include "protocol/energy.h"

namespace gpuyard::cli {

// The daemon's books: a line for each GPU, their sum, and what is wrong.
std::string energy_table(const protocol::EnergyReport&);

// What a command used: "gpuyard: 12.3 s, 3.4 kJ, ..." and a line for each GPU.
std::string energy_summary(const MeasuredCommand&);

// A command that runs as if it had been started without us: with our terminal, input and output,
// and with the signals that are meant for it.

class ForegroundCommand {
 public:
  // From here on signals wait for run(), and threads that are begun have nothing to do with them.
  ForegroundCommand();
  ~ForegroundCommand();
  ForegroundCommand(const ForegroundCommand&) = delete;
  ForegroundCommand& operator=(const ForegroundCommand&) = delete;

  // Waits for its end. Its exit code as a shell says it: 128 and the number for one that a signal
  // ended, 127 and 126 for one that could not be started, which is complained about.
  int run(const std::vector<std::string>& words) const;

 private:
  sigset_t before_{};
};

}  // namespace gpuyard::cli
