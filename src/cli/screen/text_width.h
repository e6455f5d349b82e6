// How many columns of a terminal a text takes, and cutting it to fit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli {

// Combining marks take none, East Asian letters and emoji two, a byte that is not UTF-8 one.
std::size_t width_of(std::string_view text);

// The same of a text with colours in it: escape sequences that end with an m take none.
std::size_t visible_width(std::string_view painted_text);

// At most `width` columns; of a longer text the beginning and "..." (one sign where the terminal
// shows UTF-8).
std::string cut_to(std::string_view text, std::size_t width, bool utf8);

// Lines of at most `width` columns, broken at blanks. A word that is longer is cut in pieces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace gpuyard::cli
