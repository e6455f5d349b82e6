// Saves what the agent remembers, for its next start within the same boot.
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

// Keeps a file in step with the memory, and writes it when something has changed only.
class MemoryFile {
 public:
  // "": nothing is kept.
  explicit MemoryFile(std::string path);

  // Returns the saved memory; an empty one if there is none of this boot.
  Memory load();
  Result<void> save(const Memory&);

 private:
  std::string path_;
  std::string boot_id_;
  std::string saved_;  // the text in the file
};

}  // namespace gpuyard::cli::kube
