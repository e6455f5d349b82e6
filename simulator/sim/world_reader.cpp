#include "sim/world_reader.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace gpuyard::sim {
namespace {

template <std::size_t N>
std::string_view text_of(const char (&buffer)[N]) {
  return {buffer, ::strnlen(buffer, N)};
}

Error invalid_world_error(const std::string& path, const std::string& what) {
  return Error{Errc::invalid, path + ": " + what};
}

Error open_error(const std::string& path) {
  if (errno == ENOENT) return Error{Errc::not_found, "no simulated world at " + path};
  const Errc code = errno == EACCES ? Errc::denied : Errc::internal;
  return Error{code, "opening " + path + " failed with errno " + std::to_string(errno)};
}

Result<void> check_header(const WorldHeader& header, const std::string& path) {
  if (header.magic != kWorldMagic)
    return invalid_world_error(path, "not a simulated world (wrong magic)");
  if (header.layout_version != kLayoutVersion) {
    return invalid_world_error(path, "world layout " + std::to_string(header.layout_version) +
                                         ", this program reads " + std::to_string(kLayoutVersion));
  }
  if (header.file_size != sizeof(WorldFile))
    return invalid_world_error(path, "unexpected world size");
  if (header.gpu_count > kMaxGpus) return invalid_world_error(path, "impossible number of GPUs");
  if (text_of(header.boot_id) != current_boot_id()) {
    return Error{Errc::unavailable, path + ": the world is from another boot"};
  }
  return {};
}

// Takes the lock by which the world server sees that a program has the driver open. The lock ends
// with its descriptor, however the process ends. The world server tests it by taking a lock for an
// instant; a process that holds such a lock on purpose keeps no client from reading.
void lock_driver(const UniqueFd& file) {
  constexpr int kAttempts = 20;
  constexpr useconds_t kPause = 500;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::usleep(kPause);
  }
}

template <class T, class Words>
T copy_of(const Words& words) {
  Words copy;
  for (std::size_t w = 0; w < words.size(); ++w) copy[w] = load_word(words[w]);
  return std::bit_cast<T>(copy);
}

}  // namespace

Result<WorldReader> WorldReader::open(const std::string& directory, OpenMode mode) {
  const std::string path = directory + "/" + kStateFile;
  // Non-blocking, in case the file is a FIFO.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return open_error(path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return invalid_world_error(path, "not a regular file");
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return Error{Errc::denied,
                 path + ": it belongs to UID " + std::to_string(info.st_uid) +
                     ", who could crash every reader; a world must belong to root or to you"};
  }
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(WorldHeader)) {
    return invalid_world_error(path, "truncated: no complete header");
  }
  WorldHeader header;
  if (::pread(file.get(), &header, sizeof header, 0) != ssize_t{sizeof header}) {
    return invalid_world_error(path, "truncated: no complete header");
  }
  if (auto good = check_header(header, path); !good) return std::move(good).error();
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(WorldFile)) {
    return invalid_world_error(path, "truncated");
  }
  const void* mapped = ::mmap(nullptr, sizeof(WorldFile), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return open_error(path);
  WorldReader reader(directory, std::move(file), static_cast<const WorldFile*>(mapped), header);
  if (auto known = reader.resolve_models(); !known) return std::move(known).error().in(path);
  if (mode == OpenMode::driver) lock_driver(reader.fd_);
  return reader;
}

Result<void> WorldReader::resolve_models() {
  for (std::uint32_t gpu = 0; gpu < gpu_count_; ++gpu) {
    identities_[gpu] = file_->identities[gpu];
    const std::string key(text_of(identities_[gpu].model));
    models_[gpu] = find_model(key);
    if (models_[gpu] == nullptr) return Error{Errc::invalid, "unknown GPU model " + key};
  }
  return {};
}

WorldReader::WorldReader(WorldReader&& other) noexcept
    : directory_(std::move(other.directory_)),
      fd_(std::move(other.fd_)),
      file_(std::exchange(other.file_, nullptr)),
      gpu_count_(other.gpu_count_),
      server_pid_(other.server_pid_),
      identities_(other.identities_),
      models_(other.models_) {}

WorldReader::~WorldReader() {
  if (file_ != nullptr) ::munmap(const_cast<WorldFile*>(file_), sizeof(WorldFile));
}

bool WorldReader::is_whole() const {
  struct stat info{};
  return ::fstat(fd_.get(), &info) == 0 &&
         static_cast<std::uint64_t>(info.st_size) >= sizeof(WorldFile);
}

bool WorldReader::is_alive() const {
  if (!is_whole()) return false;
  const std::uint64_t published = load_word(file_->slots[generation() & 1].published_ns);
  const std::uint64_t now = boot_time_ns();
  return now < published || now - published < kStaleAfterNs;
}

// Returns the result of `copy(slot)` on one single generation; empty if the world server is dead or
// stopped.
template <class T, class Copy>
std::optional<T> WorldReader::copy_slot(Copy&& copy) const {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (attempt > 0) ::sched_yield();
    if (!is_whole()) return std::nullopt;
    const std::uint64_t before = generation();
    const WorldSlot& slot = file_->slots[before & 1];
    const std::uint64_t published = load_word(slot.published_ns);
    const T copied = copy(slot);
    // The writer touches this slot again only after it has published the next generation.
    if (generation() != before) continue;
    const std::uint64_t now = boot_time_ns();
    const bool alive = now <= published || now - published < kStaleAfterNs;
    return alive ? std::optional(copied) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<GpuRecord> WorldReader::record(std::uint32_t gpu) const {
  return copy_slot<GpuRecord>(
      [&](const WorldSlot& slot) { return copy_of<GpuRecord>(slot.gpus[gpu]); });
}

std::optional<DriverRecord> WorldReader::driver() const {
  return copy_slot<DriverRecord>(
      [&](const WorldSlot& slot) { return copy_of<DriverRecord>(slot.driver); });
}

std::optional<RecordPair> WorldReader::record_pair(std::uint32_t gpu) const {
  return copy_slot<RecordPair>([&](const WorldSlot& slot) {
    return RecordPair{copy_of<DriverRecord>(slot.driver), copy_of<GpuRecord>(slot.gpus[gpu])};
  });
}

// Reading processes, and the logs of writes and events.
namespace {

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
  // Counts down, so that no count in a hostile file can overflow.
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
