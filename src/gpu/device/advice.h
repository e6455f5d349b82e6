// What a person can do about a driver that does not start.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// For the reason of an init_failed() error ("NVML Shared Library Not Found"): one to three lines
// without a newline at the end. Empty for one that nobody has advice on. `naming` is how another
// library is named where this is read: "--nvml PATH".
std::string advice_on_driver(std::string_view reason, std::string_view naming);

}  // namespace gpuyard
