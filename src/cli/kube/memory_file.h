// The agent's memory, and the file from which the next agent of the same boot reads it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {

// The memory as JSON. Its moments are of the boot's clock, so the text names the boot.
std::string memory_text(const Memory&, std::string_view boot_id);

// Errc::not_found: of another boot. Errc::invalid: malformed.
Result<Memory> parse_memory(std::string_view text, std::string_view boot_id);

// Thread: one.
class MemoryFile {
 public:
  // Loads the saved memory; an empty one if there is none of this boot. "": nothing is saved.
  explicit MemoryFile(std::string path);

  Memory& memory() { return memory_; }

  // Writes the file if the memory has changed. An error is logged once. Returns false if the file
  // does not have the memory.
  bool save();

 private:
  Memory load();
  Result<void> write();

  std::string path_;
  std::string boot_id_;
  std::string saved_;  // the text in the file
  std::string error_;  // that was logged last; empty: it was saved
  Memory memory_;
};

}  // namespace gpuyard::cli::kube
