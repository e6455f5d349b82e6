// What a client reads beside the GPUs' records: processes, and the logs of writes and events.
#include <sched.h>

#include <algorithm>
#include <bit>

#include "sim/world_reader.h"

namespace gpuyard::sim {
namespace {

template <class T, class Words>
T copy_of(const Words& words) {
  Words copy;
  for (std::size_t w = 0; w < words.size(); ++w) copy[w] = load_word(words[w]);
  return std::bit_cast<T>(copy);
}

std::uint32_t percent(std::uint32_t asked_permille, const GpuRecord& record) {
  const std::uint64_t given = std::uint64_t{asked_permille} * record.process_share_permille;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(100, (given + 5'000) / 10'000));
}

ProcessUse use_of(const ProcessRecord& process, const GpuRecord& record) {
  return {.pid = process.pid,
          .kind = process.kind,
          .memory_bytes = process.memory_bytes,
          .start_time = process.start_time,
          .since_ns = process.since_ns,
          .sm_percent = percent(process.load_permille, record),
          .memory_percent = percent(process.memory_load_permille, record),
          .encoder_percent = percent(process.encoder_permille, record),
          .decoder_percent = percent(process.decoder_permille, record)};
}

// Entries that the writer overwrites while they are copied are left out: entry n's slot is taken by
// entry n + kSlots, which is being written once `count` has reached the one before it.
template <class T, std::size_t N>
std::vector<T> entries_after(const WorldLog<T, N>& log, std::uint64_t sequence) {
  std::vector<T> out;
  const std::uint64_t count = load_word(log.count);
  if (sequence >= count) return out;
  // Counted down, so that no count a hostile file holds can overflow.
  for (std::uint64_t left = std::min<std::uint64_t>(count - sequence, N); left > 0; --left) {
    const std::uint64_t n = count - left + 1;
    const T entry = copy_of<T>(log.entries[n % log.kSlots]);
    if (load_word(log.count) - n < N && entry.sequence == n) out.push_back(entry);
  }
  return out;
}

}  // namespace

std::optional<std::vector<ProcessUse>> WorldReader::processes(std::uint32_t gpu,
                                                              const GpuRecord& record) const {
  std::vector<ProcessUse> out;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (attempt > 0) ::sched_yield();
    if (!is_whole()) return std::nullopt;
    const std::uint64_t before = load_word(file_->process_generation);
    const ProcessTable& table = file_->processes[before & 1];
    const std::uint64_t range = load_word(table.ranges[gpu]);
    const auto first = static_cast<std::uint32_t>(range >> 32);
    // A torn or hostile range must not lead outside the table.
    const std::uint32_t count =
        first < kMaxProcesses ? std::min(static_cast<std::uint32_t>(range), kMaxProcesses - first)
                              : 0;
    out.clear();
    out.reserve(count);
    for (std::uint32_t i = first; i < first + count; ++i) {
      out.push_back(use_of(copy_of<ProcessRecord>(table.entries[i]), record));
    }
    if (load_word(file_->process_generation) == before) return out;
  }
  return std::nullopt;
}

std::vector<WriteRecord> WorldReader::writes() const {
  return is_whole() ? entries_after(file_->writes, 0) : std::vector<WriteRecord>();
}

std::vector<EventRecord> WorldReader::events_after(std::uint64_t sequence) const {
  return is_whole() ? entries_after(file_->events, sequence) : std::vector<EventRecord>();
}

}  // namespace gpuyard::sim
