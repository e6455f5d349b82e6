// The reason why a GPU is slow, as one plain line. The daemon finds it once for all interfaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace gpuyard {

// In the order of precedence: the first that applies is named.
enum class BottleneckCause : std::uint8_t {
  lost,         // the driver says that the GPU is gone
  stale,        // the driver does not answer for it
  heat,         // hardware or driver lower the clocks because of heat
  power_brake,  // the power supply has the GPU slowed down
  power_cap,    // the power limit lowers the clocks
  narrow_link,  // NVLinks down, or fewer PCIe lanes or a lower generation than there could be
  starved,      // inferred: waits for its processes on the CPU, or for PCIe
  waiting,      // inferred: kernels are resident and compute nothing, as in a hung collective
  leased_idle,  // leased, and nobody computes
  memory_full,
  not_known,  // none of the above is known to apply, and a reading that would tell is missing
  none,       // nothing holds it back
};
BOOST_DESCRIBE_ENUM(BottleneckCause, lost, stale, heat, power_brake, power_cap, narrow_link,
                    starved, waiting, leased_idle, memory_full, not_known, none)

struct Bottleneck {
  BottleneckCause cause = BottleneckCause::not_known;
  bool inferred = false;  // probable, and not reported by the driver
  // Share of the samples of the last minute in which it applied; empty where it is a state.
  std::optional<std::int64_t> share_percent = {};
  std::string brief = {};                   // "power cap 38%": at most kMaxBriefWidth columns
  std::string text = {};                    // a sentence without the GPU's name
  std::string advice = {};                  // what to do; "" if there is nothing to do
  std::vector<std::string> not_known = {};  // what could not be judged, and why

  friend bool operator==(const Bottleneck&, const Bottleneck&) = default;
};
BOOST_DESCRIBE_STRUCT(Bottleneck, (),
                      (cause, inferred, share_percent, brief, text, advice, not_known))

// The most columns of `brief`.
inline constexpr std::size_t kMaxBriefWidth = 24;

}  // namespace gpuyard
