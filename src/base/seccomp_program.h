// A program of the kernel's filter of system calls. It runs from its beginning at each call; a
// verdict ends it.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace gpuyard {

class SeccompProgram {
 public:
  void load_architecture();
  void load_number();
  // Loads the lower 32 bits of an argument, from 0.
  void load_argument(std::size_t number);
  // Keeps these bits of what was loaded.
  void mask(std::uint32_t bits);

  // Skips that many instructions, at most 255, unless the loaded value is this one.
  void skip_unless(std::uint32_t value, std::size_t instructions);
  // Skips that many instructions if the loaded value has any of these bits.
  void skip_if_any(std::uint32_t bits, std::size_t instructions);

  void allow();
  void deny();  // the call fails with EPERM

  void append(const SeccompProgram&);
  std::size_t size() const { return code_.size(); }

  // Makes it a filter of each thread of this process, for good. Errc::denied: the kernel asks for
  // CAP_SYS_ADMIN or no_new_privs.
  Result<void> install() const;

 private:
  void load(std::size_t offset);

  std::vector<sock_filter> code_;
};

}  // namespace gpuyard
