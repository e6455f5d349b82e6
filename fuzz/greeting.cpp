// Reads what a far side says first, in pieces of any size: whatever comes, it is a greeting exactly
// when the first of its words are the last thing that came, and no answer takes back an earlier
// one.
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
  // The first byte says how much comes at a time; another byte stands for a whole greeting, which
  // chance would not find.
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
