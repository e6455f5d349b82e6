// Passes the first bytes of a far side to has_greeting(), in pieces of any size: it finds a
// greeting exactly if the first one ends the bytes that have come, and an error stays an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/http/tunnel.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpuyard::fuzz::require;
  using gpuyard::http::has_greeting;
  using gpuyard::http::kGreeting;
  using gpuyard::http::kMaxBytesBeforeGreeting;
  if (size == 0) return 0;
  // The first byte gives the size of a piece; byte kWhole stands for a whole greeting, which chance
  // would not find.
  const std::size_t piece = data[0] % 64U + 1U;
  constexpr std::uint8_t kWhole = 0xff;
  std::string all;
  for (const std::uint8_t byte : std::basic_string_view<std::uint8_t>(data + 1, size - 1)) {
    if (byte == kWhole) {
      all += kGreeting;
    } else {
      all += static_cast<char>(byte);
    }
  }
  bool failed = false;
  for (std::size_t end = std::min(piece, all.size());; end = std::min(end + piece, all.size())) {
    const std::string_view received = std::string_view(all).substr(0, end);
    const auto greeted = has_greeting(received);
    require(!failed || !greeted.ok(), "an error stays one");
    failed = !greeted.ok();
    const std::size_t at = received.find(kGreeting);
    const bool there = at != received.npos;
    const bool alone = there && at + kGreeting.size() == received.size();
    require((greeted.ok() && *greeted) == alone, "a greeting is the last thing that came");
    require(there || failed == (received.size() > kMaxBytesBeforeGreeting), "waiting has an end");
    if (end == all.size()) return 0;
  }
}
