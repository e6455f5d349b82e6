/// @file
/// One GPU in full: every reading of it, or why there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpuyard/export.h"
#include "gpuyard/health.h"
#include "gpuyard/missing.h"

namespace gpuyard {
inline namespace v0 {

/// One GPU at one moment. A value: it owns all its data but the keys, which live as long as the
/// library.
struct Device {
  /// Whether the driver answers for it.
  enum class Condition : std::uint8_t {
    responsive,    ///< the driver answers for it
    unresponsive,  ///< the driver does not answer in time
    unavailable,   ///< the driver did not open it, or says it is lost
  };

  /// One thing that is measured.
  struct Reading {
    /// Name and unit, as in JSON and docs/metrics.md: "power_draw_w", "temperature_core_celsius".
    std::string_view key;
    /// The element of several: "0" for a fan or link, "device_memory" for a place of memory errors.
    /// Empty for a reading that a GPU has once.
    std::string element;
    /// A number in the unit that the key says, a text or a state's word ("enabled"), the words of
    /// the flags that are set ("sw_power_cap"), or why there is no value.
    std::variant<Missing, double, std::string, std::vector<std::string>> value;

    /// The number, or nullptr.
    const double* number() const { return std::get_if<double>(&value); }
    /// The text or word, or nullptr.
    const std::string* text() const { return std::get_if<std::string>(&value); }
    /// The flags that are set, or nullptr.
    const std::vector<std::string>* flags() const {
      return std::get_if<std::vector<std::string>>(&value);
    }
    /// Why there is no value, or nullptr.
    const Missing* missing() const { return std::get_if<Missing>(&value); }

    /// Equal when key, element and value are.
    friend bool operator==(const Reading&, const Reading&) = default;
  };

  /// A process that uses the GPU. A value that the driver does not report is empty.
  struct Process {
    std::uint32_t pid = 0;                     ///< as the driver sees it, not as a container does
    bool computes = false;                     ///< it has a compute context
    bool draws = false;                        ///< it has a graphics context
    std::optional<std::int64_t> memory_bytes;  ///< device memory
    std::optional<std::int64_t> sm_percent;    ///< of the GPU, since the list was last read

    /// Equal when every field is.
    friend bool operator==(const Process&, const Process&) = default;
  };

  std::uint32_t index = 0;                        ///< on the node, from 0; may move between boots
  std::string uuid;                               ///< the key of the GPU; empty if it did not open
  std::string pci_address;                        ///< "0000:01:00.0", as lspci -D writes it
  std::string name;                               ///< product name
  Condition condition = Condition::responsive;    ///< whether the driver answers for it
  std::string why;                                ///< why the condition is not responsive
  HealthReport health;                            ///< the verdict on it
  std::vector<Reading> readings;                  ///< everything that is measured, in a fixed order
  std::optional<std::vector<Process>> processes;  ///< the 1024 with most memory; empty: not known

  /// The reading of this key, or nullptr if there is no such key.
  ///
  /// Without `element` the first one; if all of several are missing, it says why.
  GPUYARD_API const Reading* find(std::string_view key, std::string_view element = {}) const;
  /// The number of the reading that find() returns, or empty.
  GPUYARD_API std::optional<double> number(std::string_view key,
                                           std::string_view element = {}) const;

  /// Equal when every field is.
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace v0
}  // namespace gpuyard
