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

#include "core/processes/marks.h"

namespace gpuyard::processes {

struct MarkQuestion {
  static constexpr std::size_t kMostLeases = 512;
  static constexpr std::size_t kMostProcesses = 2048;

  std::uint32_t number = 0;
  // Those of one look share the time in which processes are waited for.
  std::uint32_t look = 0;
  PidSpace numbering = PidSpace::ours;
  std::vector<Asked> processes = {};
  std::vector<std::string> leases = {};

  friend bool operator==(const MarkQuestion&, const MarkQuestion&) = default;
};

// Asks for a file of the list that `gpuyard marks` has read itself. It names no path: a path that
// is not in that list has no digest there.
struct FileQuestion {
  std::uint32_t number = 0;
  std::uint64_t digest = 0;

  friend bool operator==(const FileQuestion&, const FileQuestion&) = default;
};

std::uint64_t digest_of(std::string_view path);

// Where /proc hides other users' processes (hidepid): asks for what it shows of one elsewhere.
struct ViewQuestion {
  std::uint32_t number = 0;
  PidSpace numbering = PidSpace::ours;
  std::uint32_t pid = 0;

  friend bool operator==(const ViewQuestion&, const ViewQuestion&) = default;
};

// The same of all processes of this PID namespace: asks for those from this number on.
struct TableQuestion {
  static constexpr std::size_t kMostRows = 1024;  // a shorter answer is the last

  std::uint32_t number = 0;
  std::uint32_t from = 0;

  friend bool operator==(const TableQuestion&, const TableQuestion&) = default;
};

// The longest datagram; a longer one is no question.
extern const std::size_t kMostMarkBytes;

std::string bytes_of(const MarkQuestion&);
// Returns nothing unless the bytes are one whole question within the limits.
std::optional<MarkQuestion> question_in(std::string_view bytes);

std::string bytes_of(const FileQuestion&);
std::optional<FileQuestion> file_question_in(std::string_view bytes);
// The file is beside it as a descriptor if it is given.
std::string answer_to(const FileQuestion&, bool given);
std::optional<bool> answer_in(std::string_view bytes, const FileQuestion&);

std::string bytes_of(const ViewQuestion&);
std::optional<ViewQuestion> view_question_in(std::string_view bytes);
std::string answer_to(const ViewQuestion&, const Result<ProcessView>&);
// Returns Errc::not_found for a process that is not there, Errc::invalid for bytes that are no
// answer.
Result<ProcessView> answer_in(std::string_view bytes, const ViewQuestion&);

std::string bytes_of(const TableQuestion&);
std::optional<TableQuestion> table_question_in(std::string_view bytes);
// Takes from the table what was asked for. A row's command comes out as a digest, in digits.
std::string answer_to(const TableQuestion&, const ProcessTable&);
std::optional<std::vector<ProcessRow>> answer_in(std::string_view bytes, const TableQuestion&);

std::string answer_to(const MarkQuestion&, const std::vector<MarkPlace>&);
// Returns nothing unless the bytes answer this very question, with places that it has.
std::optional<std::vector<MarkPlace>> answer_in(std::string_view bytes, const MarkQuestion&);

}  // namespace gpuyard::processes
