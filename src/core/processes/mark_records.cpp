#include "processes/mark_records.h"

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
  std::memcpy(&record, bytes.data(), sizeof record);
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
      head.tag == kQuestionTag &&
      head.numbering <= static_cast<std::uint32_t>(Numbering::drivers) &&
      head.leases <= MarkQuestion::kMostLeases && head.processes <= MarkQuestion::kMostProcesses &&
      bytes.size() == head.leases * sizeof(LeaseRecord) + head.processes * sizeof(ProcessRecord);
  if (!good) return std::nullopt;
  MarkQuestion question{
      .number = head.number, .look = head.look, .numbering = Numbering{head.numbering}};
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
