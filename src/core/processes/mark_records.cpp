#include "core/processes/mark_records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace gpuyard::processes {
namespace {

// Both ends run on one machine, so the order of bytes is its own. Another layout gets another tag.
constexpr std::uint32_t kMarkRequestTag = 0x31515947;  // "GYQ1"
constexpr std::uint32_t kMarkReplyTag = 0x31415947;    // "GYA1"

constexpr std::uint32_t kFileRequestTag = 0x31465947;  // "GYF1"
constexpr std::uint32_t kFileReplyTag = 0x31475947;    // "GYG1"

constexpr std::uint32_t kViewRequestTag = 0x31565947;   // "GYV1"
constexpr std::uint32_t kViewReplyTag = 0x31535947;     // "GYS1"
constexpr std::uint32_t kTableRequestTag = 0x31545947;  // "GYT1"
constexpr std::uint32_t kTableReplyTag = 0x31525947;    // "GYR1"

struct ViewRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t pid_space;
  std::uint32_t pid;
};
// The text of the control group follows.
struct ViewReplyRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t found;
  std::uint32_t pid;
  std::int64_t started_ns;
  std::uint32_t parent;
  std::uint32_t in_kernel;
  std::uint32_t real;
  std::uint32_t effective;
  std::uint32_t saved;
  std::uint32_t leads;
  std::array<char, kMaxCommandBytes> command;  // the rest is 0
};
struct TableRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t from;
};
struct RowRecord {
  std::uint32_t pid;
  std::uint32_t parent;
  std::int64_t started_ns;
  std::uint32_t ended;
  std::uint32_t in_kernel;
  std::uint64_t program;
};
struct FileRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint64_t digest;
};
struct FileReplyRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t given;
};
struct MarkRequestHeader {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t scan;
  std::uint32_t pid_space;
  std::uint32_t leases;
  std::uint32_t processes;
};
using LeaseRecord = std::array<char, kMaxLeaseIdLength>;  // the rest is 0
struct ProcessRecord {
  std::uint32_t pid;
  std::uint32_t program;
  std::int64_t started_ns;
  std::uint64_t reread;
};
struct MarkReplyHeader {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t count;
};

template <class Record>
void append_record(std::string& bytes, const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>, "no byte of it is padding");
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof record);
  std::memcpy(bytes.data() + at, &record, sizeof record);
}

// The caller has checked the length.
template <class Record>
Record take_record(std::string_view& bytes) {
  Record record{};
  std::ranges::copy(bytes.substr(0, sizeof record), reinterpret_cast<char*>(&record));
  bytes.remove_prefix(sizeof record);
  return record;
}

}  // namespace

const std::size_t kMaxMarkBytes = sizeof(MarkRequestHeader) +
                                  MarkRequest::kMaxLeases * sizeof(LeaseRecord) +
                                  MarkRequest::kMaxProcesses * sizeof(ProcessRecord);

std::string bytes_of(const MarkRequest& request) {
  std::string bytes;
  append_record(bytes, MarkRequestHeader{kMarkRequestTag, request.number, request.scan,
                                         static_cast<std::uint32_t>(request.pid_space),
                                         static_cast<std::uint32_t>(request.leases.size()),
                                         static_cast<std::uint32_t>(request.processes.size())});
  for (const std::string& lease : request.leases) {
    LeaseRecord record{};
    // No environment names a longer one, so it is sent as one that no environment names.
    if (lease.size() <= record.size()) std::ranges::copy(lease, record.begin());
    append_record(bytes, record);
  }
  for (const ScanTarget& target : request.processes) {
    append_record(bytes, ProcessRecord{target.process.pid, target.program,
                                       target.process.started.time_since_epoch().count(),
                                       target.reread ? 1U : 0U});
  }
  return bytes;
}

std::optional<MarkRequest> parse_mark_request(std::string_view bytes) {
  if (bytes.size() < sizeof(MarkRequestHeader)) return std::nullopt;
  const auto head = take_record<MarkRequestHeader>(bytes);
  const bool good =
      head.tag == kMarkRequestTag &&
      head.pid_space <= static_cast<std::uint32_t>(PidSpace::drivers) &&
      head.leases <= MarkRequest::kMaxLeases && head.processes <= MarkRequest::kMaxProcesses &&
      bytes.size() == head.leases * sizeof(LeaseRecord) + head.processes * sizeof(ProcessRecord);
  if (!good) return std::nullopt;
  MarkRequest request{
      .number = head.number, .scan = head.scan, .pid_space = PidSpace{head.pid_space}};
  for (std::uint32_t i = 0; i < head.leases; ++i) {
    const auto record = take_record<LeaseRecord>(bytes);
    request.leases.emplace_back(record.begin(), std::ranges::find(record, '\0'));
  }
  for (std::uint32_t i = 0; i < head.processes; ++i) {
    const auto record = take_record<ProcessRecord>(bytes);
    request.processes.push_back(
        {{record.pid, TimePoint(Duration(record.started_ns))}, record.program, record.reread != 0});
  }
  return request;
}

// FNV-1a.
std::uint64_t digest_of(std::string_view path) {
  std::uint64_t digest = 14'695'981'039'346'656'037U;
  for (const char c : path) digest = (digest ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  return digest;
}

std::string bytes_of(const FileRequest& request) {
  std::string bytes;
  append_record(bytes, FileRecord{kFileRequestTag, request.number, request.digest});
  return bytes;
}

std::optional<FileRequest> parse_file_request(std::string_view bytes) {
  if (bytes.size() != sizeof(FileRecord)) return std::nullopt;
  const auto record = take_record<FileRecord>(bytes);
  if (record.tag != kFileRequestTag) return std::nullopt;
  return FileRequest{record.number, record.digest};
}

std::string encode_reply(const FileRequest& request, bool given) {
  std::string bytes;
  append_record(bytes, FileReplyRecord{kFileReplyTag, request.number, given ? 1U : 0U});
  return bytes;
}

std::optional<bool> parse_reply(std::string_view bytes, const FileRequest& request) {
  if (bytes.size() != sizeof(FileReplyRecord)) return std::nullopt;
  const auto record = take_record<FileReplyRecord>(bytes);
  if (record.tag != kFileReplyTag || record.number != request.number || record.given > 1) {
    return std::nullopt;
  }
  return record.given == 1;
}

std::string bytes_of(const ViewRequest& request) {
  std::string bytes;
  append_record(bytes, ViewRecord{kViewRequestTag, request.number,
                                  static_cast<std::uint32_t>(request.pid_space), request.pid});
  return bytes;
}

std::optional<ViewRequest> parse_view_request(std::string_view bytes) {
  if (bytes.size() != sizeof(ViewRecord)) return std::nullopt;
  const auto record = take_record<ViewRecord>(bytes);
  if (record.tag != kViewRequestTag ||
      record.pid_space > static_cast<std::uint32_t>(PidSpace::drivers)) {
    return std::nullopt;
  }
  return ViewRequest{record.number, PidSpace{record.pid_space}, record.pid};
}

std::string encode_reply(const ViewRequest& request, const Result<ProcessView>& view) {
  ViewReplyRecord record{};
  record.tag = kViewReplyTag;
  record.number = request.number;
  std::string bytes;
  if (view) {
    record.found = 1;
    record.pid = view->process.pid;
    record.started_ns = view->process.started.time_since_epoch().count();
    record.parent = view->parent;
    record.in_kernel = view->in_kernel ? 1 : 0;
    record.real = view->uids.real;
    record.effective = view->uids.effective;
    record.saved = view->uids.saved;
    record.leads = view->is_namespace_init ? 1 : 0;
    std::ranges::copy(std::string_view(view->command).substr(0, record.command.size()),
                      record.command.begin());
  }
  append_record(bytes, record);
  if (view) bytes += std::string_view(view->cgroup).substr(0, kMaxMarkBytes - bytes.size());
  return bytes;
}

Result<ProcessView> parse_reply(std::string_view bytes, const ViewRequest& request) {
  const Error wrong{Errc::invalid, "the answer is not understood"};
  if (bytes.size() < sizeof(ViewReplyRecord)) return wrong;
  const auto record = take_record<ViewReplyRecord>(bytes);
  if (record.tag != kViewReplyTag || record.number != request.number) return wrong;
  if (record.found == 0) return Error{Errc::not_found, "process not found"};
  if (record.pid != request.pid) return wrong;
  const std::string_view command(record.command.data(), record.command.size());
  return ProcessView{{record.pid, TimePoint(Duration(record.started_ns))},
                     record.parent,
                     record.in_kernel != 0,
                     {record.real, record.effective, record.saved},
                     record.leads != 0,
                     valid_text(command.substr(0, command.find('\0')), kMaxCommandBytes),
                     std::string(bytes)};
}

std::string bytes_of(const TableRequest& request) {
  std::string bytes;
  append_record(bytes, TableRecord{kTableRequestTag, request.number, request.from});
  return bytes;
}

std::optional<TableRequest> parse_table_request(std::string_view bytes) {
  if (bytes.size() != sizeof(TableRecord)) return std::nullopt;
  const auto record = take_record<TableRecord>(bytes);
  if (record.tag != kTableRequestTag) return std::nullopt;
  return TableRequest{record.number, record.from};
}

std::string encode_reply(const TableRequest& request, const ProcessTable& table) {
  std::string bytes;
  append_record(bytes, TableRecord{kTableReplyTag, request.number, request.from});
  auto row = std::ranges::lower_bound(table.rows, request.from, {},
                                      [](const ProcessRow& one) { return one.process.pid; });
  for (std::size_t i = 0; i < TableRequest::kMaxRows && row != table.rows.end(); ++i, ++row) {
    append_record(
        bytes,
        RowRecord{row->process.pid, row->parent, row->process.started.time_since_epoch().count(),
                  row->ended ? 1U : 0U, row->in_kernel ? 1U : 0U, program_of(row->command)});
  }
  return bytes;
}

std::optional<std::vector<ProcessRow>> parse_reply(std::string_view bytes,
                                                   const TableRequest& request) {
  if (bytes.size() < sizeof(TableRecord)) return std::nullopt;
  const auto head = take_record<TableRecord>(bytes);
  if (head.tag != kTableReplyTag || head.number != request.number || head.from != request.from ||
      bytes.size() % sizeof(RowRecord) != 0 ||
      bytes.size() / sizeof(RowRecord) > TableRequest::kMaxRows) {
    return std::nullopt;
  }
  std::vector<ProcessRow> rows;
  std::uint32_t min_pid = request.from;
  while (!bytes.empty()) {
    const auto record = take_record<RowRecord>(bytes);
    if (record.pid < min_pid || record.pid == UINT32_MAX) return std::nullopt;
    min_pid = record.pid + 1;
    rows.push_back({.process = {record.pid, TimePoint(Duration(record.started_ns))},
                    .parent = record.parent,
                    .ended = record.ended != 0,
                    .in_kernel = record.in_kernel != 0,
                    .command = std::to_string(record.program)});
  }
  return rows;
}

std::string encode_reply(const MarkRequest& request, const std::vector<MarkIndex>& mark_indexes) {
  std::string bytes;
  append_record(bytes, MarkReplyHeader{kMarkReplyTag, request.number,
                                       static_cast<std::uint32_t>(request.processes.size())});
  const auto lease_count = static_cast<MarkIndex>(request.leases.size());
  for (std::size_t i = 0; i < request.processes.size(); ++i) {
    const MarkIndex mark_index = i < mark_indexes.size() ? mark_indexes[i] : kMarkUnreadable;
    append_record(bytes, mark_index >= kMarkUnreadable && mark_index < lease_count
                             ? mark_index
                             : kMarkUnreadable);
  }
  return bytes;
}

std::optional<std::vector<MarkIndex>> parse_reply(std::string_view bytes,
                                                  const MarkRequest& request) {
  if (bytes.size() < sizeof(MarkReplyHeader)) return std::nullopt;
  const auto head = take_record<MarkReplyHeader>(bytes);
  const bool good = head.tag == kMarkReplyTag && head.number == request.number &&
                    head.count == request.processes.size() &&
                    bytes.size() == head.count * sizeof(MarkIndex);
  if (!good) return std::nullopt;
  std::vector<MarkIndex> mark_indexes;
  const auto lease_count = static_cast<MarkIndex>(request.leases.size());
  for (std::uint32_t i = 0; i < head.count; ++i) {
    const auto mark_index = take_record<MarkIndex>(bytes);
    if (mark_index < kMarkUnreadable || mark_index >= lease_count) return std::nullopt;
    mark_indexes.push_back(mark_index);
  }
  return mark_indexes;
}

}  // namespace gpuyard::processes
