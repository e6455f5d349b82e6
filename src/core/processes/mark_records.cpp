#include "core/processes/mark_records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace gpuyard::processes {
namespace {

// Both ends run on one machine, so the order of bytes is its own. Another layout gets another tag.
constexpr std::uint32_t kQuestionTag = 0x31515947;  // "GYQ1"
constexpr std::uint32_t kAnswerTag = 0x31415947;    // "GYA1"

constexpr std::uint32_t kFileTag = 0x31465947;   // "GYF1"
constexpr std::uint32_t kGivenTag = 0x31475947;  // "GYG1"

constexpr std::uint32_t kViewTag = 0x31565947;   // "GYV1"
constexpr std::uint32_t kSeenTag = 0x31535947;   // "GYS1"
constexpr std::uint32_t kTableTag = 0x31545947;  // "GYT1"
constexpr std::uint32_t kRowsTag = 0x31525947;   // "GYR1"

struct ViewRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t numbering;
  std::uint32_t pid;
};
// The text of the control group follows.
struct SeenRecord {
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
  std::array<char, kMostCommandBytes> command;  // the rest is 0
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
struct GivenRecord {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t given;
};
struct QuestionHead {
  std::uint32_t tag;
  std::uint32_t number;
  std::uint32_t look;
  std::uint32_t numbering;
  std::uint32_t leases;
  std::uint32_t processes;
};
using LeaseRecord = std::array<char, kLongestLease>;  // the rest is 0
struct ProcessRecord {
  std::uint32_t pid;
  std::uint32_t program;
  std::int64_t started_ns;
  std::uint64_t again;
};
struct AnswerHead {
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

const std::size_t kMostMarkBytes = sizeof(QuestionHead) +
                                   MarkQuestion::kMostLeases * sizeof(LeaseRecord) +
                                   MarkQuestion::kMostProcesses * sizeof(ProcessRecord);

std::string bytes_of(const MarkQuestion& question) {
  std::string bytes;
  append_record(bytes, QuestionHead{kQuestionTag, question.number, question.look,
                                    static_cast<std::uint32_t>(question.numbering),
                                    static_cast<std::uint32_t>(question.leases.size()),
                                    static_cast<std::uint32_t>(question.processes.size())});
  for (const std::string& lease : question.leases) {
    LeaseRecord record{};
    // No environment names a longer one, so it is sent as one that no environment names.
    if (lease.size() <= record.size()) std::ranges::copy(lease, record.begin());
    append_record(bytes, record);
  }
  for (const Asked& asked : question.processes) {
    append_record(bytes, ProcessRecord{asked.process.pid, asked.program,
                                       asked.process.started.time_since_epoch().count(),
                                       asked.again ? 1U : 0U});
  }
  return bytes;
}

std::optional<MarkQuestion> question_in(std::string_view bytes) {
  if (bytes.size() < sizeof(QuestionHead)) return std::nullopt;
  const auto head = take_record<QuestionHead>(bytes);
  const bool good =
      head.tag == kQuestionTag && head.numbering <= static_cast<std::uint32_t>(PidSpace::drivers) &&
      head.leases <= MarkQuestion::kMostLeases && head.processes <= MarkQuestion::kMostProcesses &&
      bytes.size() == head.leases * sizeof(LeaseRecord) + head.processes * sizeof(ProcessRecord);
  if (!good) return std::nullopt;
  MarkQuestion question{
      .number = head.number, .look = head.look, .numbering = PidSpace{head.numbering}};
  for (std::uint32_t i = 0; i < head.leases; ++i) {
    const auto record = take_record<LeaseRecord>(bytes);
    question.leases.emplace_back(record.begin(), std::ranges::find(record, '\0'));
  }
  for (std::uint32_t i = 0; i < head.processes; ++i) {
    const auto record = take_record<ProcessRecord>(bytes);
    question.processes.push_back(
        {{record.pid, TimePoint(Duration(record.started_ns))}, record.program, record.again != 0});
  }
  return question;
}

// FNV-1a.
std::uint64_t digest_of(std::string_view path) {
  std::uint64_t digest = 14'695'981'039'346'656'037U;
  for (const char c : path) digest = (digest ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  return digest;
}

std::string bytes_of(const FileQuestion& question) {
  std::string bytes;
  append_record(bytes, FileRecord{kFileTag, question.number, question.digest});
  return bytes;
}

std::optional<FileQuestion> file_question_in(std::string_view bytes) {
  if (bytes.size() != sizeof(FileRecord)) return std::nullopt;
  const auto record = take_record<FileRecord>(bytes);
  if (record.tag != kFileTag) return std::nullopt;
  return FileQuestion{record.number, record.digest};
}

std::string answer_to(const FileQuestion& question, bool given) {
  std::string bytes;
  append_record(bytes, GivenRecord{kGivenTag, question.number, given ? 1U : 0U});
  return bytes;
}

std::optional<bool> answer_in(std::string_view bytes, const FileQuestion& question) {
  if (bytes.size() != sizeof(GivenRecord)) return std::nullopt;
  const auto record = take_record<GivenRecord>(bytes);
  if (record.tag != kGivenTag || record.number != question.number || record.given > 1) {
    return std::nullopt;
  }
  return record.given == 1;
}

std::string bytes_of(const ViewQuestion& question) {
  std::string bytes;
  append_record(bytes, ViewRecord{kViewTag, question.number,
                                  static_cast<std::uint32_t>(question.numbering), question.pid});
  return bytes;
}

std::optional<ViewQuestion> view_question_in(std::string_view bytes) {
  if (bytes.size() != sizeof(ViewRecord)) return std::nullopt;
  const auto record = take_record<ViewRecord>(bytes);
  if (record.tag != kViewTag || record.numbering > static_cast<std::uint32_t>(PidSpace::drivers)) {
    return std::nullopt;
  }
  return ViewQuestion{record.number, PidSpace{record.numbering}, record.pid};
}

std::string answer_to(const ViewQuestion& question, const Result<ProcessView>& view) {
  SeenRecord record{};
  record.tag = kSeenTag;
  record.number = question.number;
  std::string bytes;
  if (view) {
    record.found = 1;
    record.pid = view->process.pid;
    record.started_ns = view->process.started.time_since_epoch().count();
    record.parent = view->parent;
    record.in_kernel = view->in_kernel ? 1 : 0;
    record.real = view->owner.real;
    record.effective = view->owner.effective;
    record.saved = view->owner.saved;
    record.leads = view->leads_namespace ? 1 : 0;
    std::ranges::copy(std::string_view(view->command).substr(0, record.command.size()),
                      record.command.begin());
  }
  append_record(bytes, record);
  if (view) bytes += std::string_view(view->cgroup).substr(0, kMostMarkBytes - bytes.size());
  return bytes;
}

Result<ProcessView> answer_in(std::string_view bytes, const ViewQuestion& question) {
  const Error wrong{Errc::invalid, "the answer is not understood"};
  if (bytes.size() < sizeof(SeenRecord)) return wrong;
  const auto record = take_record<SeenRecord>(bytes);
  if (record.tag != kSeenTag || record.number != question.number) return wrong;
  if (record.found == 0) return Error{Errc::not_found, "process not found"};
  if (record.pid != question.pid) return wrong;
  const std::string_view command(record.command.data(), record.command.size());
  return ProcessView{{record.pid, TimePoint(Duration(record.started_ns))},
                     record.parent,
                     record.in_kernel != 0,
                     {record.real, record.effective, record.saved},
                     record.leads != 0,
                     valid_text(command.substr(0, command.find('\0')), kMostCommandBytes),
                     std::string(bytes)};
}

std::string bytes_of(const TableQuestion& question) {
  std::string bytes;
  append_record(bytes, TableRecord{kTableTag, question.number, question.from});
  return bytes;
}

std::optional<TableQuestion> table_question_in(std::string_view bytes) {
  if (bytes.size() != sizeof(TableRecord)) return std::nullopt;
  const auto record = take_record<TableRecord>(bytes);
  if (record.tag != kTableTag) return std::nullopt;
  return TableQuestion{record.number, record.from};
}

std::string answer_to(const TableQuestion& question, const ProcessTable& table) {
  std::string bytes;
  append_record(bytes, TableRecord{kRowsTag, question.number, question.from});
  auto row = std::ranges::lower_bound(table.rows, question.from, {},
                                      [](const ProcessRow& one) { return one.process.pid; });
  for (std::size_t i = 0; i < TableQuestion::kMostRows && row != table.rows.end(); ++i, ++row) {
    append_record(
        bytes,
        RowRecord{row->process.pid, row->parent, row->process.started.time_since_epoch().count(),
                  row->ended ? 1U : 0U, row->in_kernel ? 1U : 0U, program_of(row->command)});
  }
  return bytes;
}

std::optional<std::vector<ProcessRow>> answer_in(std::string_view bytes,
                                                 const TableQuestion& question) {
  if (bytes.size() < sizeof(TableRecord)) return std::nullopt;
  const auto head = take_record<TableRecord>(bytes);
  if (head.tag != kRowsTag || head.number != question.number || head.from != question.from ||
      bytes.size() % sizeof(RowRecord) != 0 ||
      bytes.size() / sizeof(RowRecord) > TableQuestion::kMostRows) {
    return std::nullopt;
  }
  std::vector<ProcessRow> rows;
  std::uint32_t least = question.from;
  while (!bytes.empty()) {
    const auto record = take_record<RowRecord>(bytes);
    if (record.pid < least || record.pid == UINT32_MAX) return std::nullopt;
    least = record.pid + 1;
    rows.push_back({.process = {record.pid, TimePoint(Duration(record.started_ns))},
                    .parent = record.parent,
                    .ended = record.ended != 0,
                    .in_kernel = record.in_kernel != 0,
                    .command = std::to_string(record.program)});
  }
  return rows;
}

std::string answer_to(const MarkQuestion& question, const std::vector<MarkPlace>& places) {
  std::string bytes;
  append_record(bytes, AnswerHead{kAnswerTag, question.number,
                                  static_cast<std::uint32_t>(question.processes.size())});
  const auto most = static_cast<MarkPlace>(question.leases.size());
  for (std::size_t i = 0; i < question.processes.size(); ++i) {
    const MarkPlace place = i < places.size() ? places[i] : kMarkUnreadable;
    append_record(bytes, place >= kMarkUnreadable && place < most ? place : kMarkUnreadable);
  }
  return bytes;
}

std::optional<std::vector<MarkPlace>> answer_in(std::string_view bytes,
                                                const MarkQuestion& question) {
  if (bytes.size() < sizeof(AnswerHead)) return std::nullopt;
  const auto head = take_record<AnswerHead>(bytes);
  const bool good = head.tag == kAnswerTag && head.number == question.number &&
                    head.count == question.processes.size() &&
                    bytes.size() == head.count * sizeof(MarkPlace);
  if (!good) return std::nullopt;
  std::vector<MarkPlace> places;
  const auto most = static_cast<MarkPlace>(question.leases.size());
  for (std::uint32_t i = 0; i < head.count; ++i) {
    const auto place = take_record<MarkPlace>(bytes);
    if (place < kMarkUnreadable || place >= most) return std::nullopt;
    places.push_back(place);
  }
  return places;
}

}  // namespace gpuyard::processes
