// One line of the kernel's log in which NVIDIA's driver tells of an Xid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpuyard::events {

// A record as /dev/kmsg gives it: "4,1234,567890123,-;the message".
struct KernelRecord {
  Duration stamp;  // since boot, by the kernel's own clock
  std::string_view message;
};
// Nothing: no record of the kernel's own; also the further lines of one, which begin with a space.
std::optional<KernelRecord> parse_record(std::string_view line);

struct KernelXid {
  std::string pci_address;  // "0000:3b:00": the function is not told
  std::uint32_t xid = 0;
  std::optional<std::uint32_t> pid;  // as the host sees it
  std::string text;                  // what the driver said beside pid and name of a process

  friend bool operator==(const KernelXid&, const KernelXid&) = default;
};

// "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
// in the forms that drivers have used: without "PCI:", with the instances of a MIG GPU behind the
// address, with pid and name, pid alone, or neither.
std::optional<KernelXid> parse_xid(std::string_view message);

}  // namespace gpuyard::events
