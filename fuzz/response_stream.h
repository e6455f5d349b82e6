// Reads what a server sent as a sequence of HTTP/1.1 responses, strictly and by itself: no code of
// src/io/http judges its own output.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuyard::fuzz {

struct ResponseStream {
  std::size_t responses = 0;  // final ones
  bool closed = false;        // the last one said that nothing follows
};

// Aborts with a word on stderr if `bytes` are anything else. A body must not begin with 'H': it is
// how a response to HEAD, which has none, is told from one to GET.
ResponseStream read_responses(std::string_view bytes);

}  // namespace gpuyard::fuzz
