// What the daemon and `gpuyard marks` say to each other: records of a fixed size, each datagram one
// question or one answer. An answer is numbers alone, so a daemon that was taken over learns from
// it only whether a process names a lease that it knows already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "processes/marks.h"

namespace gpuyard::processes {

struct MarkQuestion {
  static constexpr std::size_t kMostLeases = 512;
  static constexpr std::size_t kMostProcesses = 2048;

  std::uint32_t number = 0;
  // Those of one look share the time in which processes are waited for.
  std::uint32_t look = 0;
  Numbering numbering = Numbering::ours;
  std::vector<Asked> processes = {};
  std::vector<std::string> leases = {};

  friend bool operator==(const MarkQuestion&, const MarkQuestion&) = default;
};

// The longest datagram; a longer one is no question.
extern const std::size_t kMostMarkBytes;

std::string bytes_of(const MarkQuestion&);
// Returns nothing unless the bytes are one whole question within the limits.
std::optional<MarkQuestion> question_in(std::string_view bytes);

std::string answer_to(const MarkQuestion&, const std::vector<MarkPlace>&);
// Returns nothing unless the bytes answer this very question, with places that it has.
std::optional<std::vector<MarkPlace>> answer_in(std::string_view bytes, const MarkQuestion&);

}  // namespace gpuyard::processes
