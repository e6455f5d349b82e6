// The rows of nvidia-smi -q and -q -x.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpuyard::cli {

struct SmiRow {
  enum class Shape : std::uint8_t {
    plain,
    section,        // of the rows below that are deeper
    whole_section,  // the same; it is one value, N/A, if its first row is missing
    celsius,
    lanes,           // of PCIe: "16x"
    kilobytes,       // in a second
    hex,             // without 0x in XML
    display_clocks,  // a bit of the throttle reasons that --query-gpu has no field for
    none,            // the word None, in a line of its own
  };

  std::uint8_t depth = 0;       // 1: a GPU's own
  std::string_view label;       // in text; empty: only in XML
  std::string_view tag;         // in XML; empty: only in text
  std::string_view field = {};  // of a query, by nvidia-smi's name or our own; empty: not measured
  Shape shape = Shape::plain;
  std::uint16_t since = 0;  // the first branch of the driver that has it
  std::uint16_t until = 0;  // the first that has it no more; 0: every later one has it

  bool is_section() const { return shape == Shape::section || shape == Shape::whole_section; }
  bool is_in(int branch) const { return branch >= since && (until == 0 || branch < until); }
};

std::span<const SmiRow> smi_rows();

}  // namespace gpuyard::cli
