// The protocol between the daemon and `gpuyard marks`: records of a fixed size, each datagram one
// request or one reply. A reply is numbers alone, so a daemon that was taken over learns from it
// only whether a process names a lease that it knows already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/processes/marks.h"

namespace gpuyard::processes {

struct MarkRequest {
  static constexpr std::size_t kMaxLeases = 512;
  static constexpr std::size_t kMaxProcesses = 2048;

  std::uint32_t number = 0;
  // The requests of one observation share this number, and the time of waiting for processes.
  std::uint32_t scan = 0;
  PidSpace pid_space = PidSpace::ours;
  std::vector<ScanTarget> processes = {};
  std::vector<std::string> leases = {};

  friend bool operator==(const MarkRequest&, const MarkRequest&) = default;
};

// Asks for a file of the list that `gpuyard marks` has read itself. It names no path: a path that
// is not in that list has no digest there.
struct FileRequest {
  std::uint32_t number = 0;
  std::uint64_t digest = 0;

  friend bool operator==(const FileRequest&, const FileRequest&) = default;
};

std::uint64_t digest_of(std::string_view path);

// Asks for the view of a process that /proc hides from the daemon (hidepid).
struct ViewRequest {
  std::uint32_t number = 0;
  PidSpace pid_space = PidSpace::ours;
  std::uint32_t pid = 0;

  friend bool operator==(const ViewRequest&, const ViewRequest&) = default;
};

// Asks for the processes of this PID namespace from this number on.
struct TableRequest {
  static constexpr std::size_t kMaxRows = 1024;  // a shorter reply is the last

  std::uint32_t number = 0;
  std::uint32_t from = 0;

  friend bool operator==(const TableRequest&, const TableRequest&) = default;
};

// The longest datagram; a longer one is no request.
extern const std::size_t kMaxMarkBytes;

std::string bytes_of(const MarkRequest&);
// Returns nothing unless the bytes are one whole request within the limits.
std::optional<MarkRequest> parse_mark_request(std::string_view bytes);

std::string bytes_of(const FileRequest&);
std::optional<FileRequest> parse_file_request(std::string_view bytes);
// The file is beside it as a descriptor if it is given.
std::string encode_reply(const FileRequest&, bool given);
std::optional<bool> parse_reply(std::string_view bytes, const FileRequest&);

std::string bytes_of(const ViewRequest&);
std::optional<ViewRequest> parse_view_request(std::string_view bytes);
std::string encode_reply(const ViewRequest&, const Result<ProcessView>&);
// Returns Errc::not_found for a process that is not there, Errc::invalid for bytes that are no
// reply.
Result<ProcessView> parse_reply(std::string_view bytes, const ViewRequest&);

std::string bytes_of(const TableRequest&);
std::optional<TableRequest> parse_table_request(std::string_view bytes);
// Takes the requested rows from the table. A row's command comes out as a digest, in digits.
std::string encode_reply(const TableRequest&, const ProcessTable&);
std::optional<std::vector<ProcessRow>> parse_reply(std::string_view bytes, const TableRequest&);

std::string encode_reply(const MarkRequest&, const std::vector<MarkIndex>&);
// Returns nothing unless the bytes are the reply to this very request, with indexes that it has.
std::optional<std::vector<MarkIndex>> parse_reply(std::string_view bytes, const MarkRequest&);

}  // namespace gpuyard::processes
