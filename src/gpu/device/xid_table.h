// The driver's numbers for what goes wrong, as far as their meaning is public: data, and nothing
// that acts on it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "device/event.h"

namespace gpuyard {

struct XidRow {
  std::uint32_t number;
  Severity severity;
  std::string_view meaning;  // one plain sentence
};

// By number.
std::span<const XidRow> xid_table();

// An uncorrectable memory error that cost one process and nothing else.
inline constexpr std::uint32_t kXidContained = 94;

// Of a number that is not in the table: a note that says so.
XidRow xid_row(std::uint32_t number);

}  // namespace gpuyard
