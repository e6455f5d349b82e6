// The word that somebody may have meant.
#pragma once

#include <string_view>
#include <vector>

namespace gpuyard {

// Of the candidates the one with the fewest letters to change, if they are few; else empty.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace gpuyard
