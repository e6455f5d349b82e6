// Gzip of whole bodies. The only door to zlib; knows no HTTP.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpuyard::http {

std::string gzip(std::string_view plain);

// Empty if `packed` is no gzip, is cut short, or would become more than `at_most` bytes.
std::optional<std::string> gunzip(std::string_view packed, std::size_t at_most);

}  // namespace gpuyard::http
