// What NVML's return codes mean to the rest of the house.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "device/reading.h"
#include "nvml/abi.h"

namespace gpuyard::nvml {

// NVML's own words for a code ("Unknown Error"), also where no library is there to ask.
std::string_view text_of(ReturnCode);

MissingReason missing_reason_of(ReturnCode);
Errc errc_of(ReturnCode);

inline Missing missing_of(ReturnCode code) {
  return {missing_reason_of(code), std::string(text_of(code))};
}

}  // namespace gpuyard::nvml
