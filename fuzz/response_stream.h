// Parses a server's output as a sequence of HTTP/1.1 responses, strictly and independently: no code
// of src/io/http judges its own output.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuyard::fuzz {

struct ResponseStream {
  std::size_t responses = 0;  // final ones
  bool closed = false;        // the last one announced the end of the connection
};

// Aborts with a message on stderr if `bytes` are anything else. A body must not begin with 'H': an
// 'H' after the head means a response to HEAD, which has no body.
ResponseStream read_responses(std::string_view bytes);

}  // namespace gpuyard::fuzz
