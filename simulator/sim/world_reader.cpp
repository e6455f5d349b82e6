#include "sim/world_reader.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

Error invalid(const std::string& path, const std::string& what) {
  return Error{Errc::invalid, path + ": " + what};
}

Error cannot_open(const std::string& path) {
  if (errno == ENOENT) return Error{Errc::not_found, "no simulated world at " + path};
  const Errc code = errno == EACCES ? Errc::denied : Errc::internal;
  return Error{code, "opening " + path + " failed with errno " + std::to_string(errno)};
}

Result<void> check(const WorldHeader& header, const std::string& path) {
  if (header.magic != kWorldMagic) return invalid(path, "not a simulated world (wrong magic)");
  if (header.layout_version != kLayoutVersion) {
    return invalid(path, "world layout " + std::to_string(header.layout_version) +
                             ", this program reads " + std::to_string(kLayoutVersion));
  }
  if (header.file_size != sizeof(WorldFile)) return invalid(path, "unexpected world size");
  if (header.gpu_count > kMaxGpus) return invalid(path, "impossible number of GPUs");
  if (text_of(header.boot_id) != current_boot_id()) {
    return Error{Errc::unavailable, path + ": the world is from another boot"};
  }
  return {};
}

// By this lock, which ends with its descriptor however a process ends, the keeper sees that
// somebody has the driver open. It looks with a lock of its own, for an instant; whoever held that
// one on purpose keeps nobody from reading.
void hold(const UniqueFd& file) {
  constexpr int kAttempts = 20;
  constexpr useconds_t kPause = 500;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::usleep(kPause);
  }
}

template <std::size_t N>
void load(const std::array<std::uint64_t, N>& from, std::array<std::uint64_t, N>& to) {
  for (std::size_t w = 0; w < N; ++w) to[w] = load_word(from[w]);
}

}  // namespace

Result<WorldReader> WorldReader::open(const std::string& directory, Opens opens) {
  const std::string path = directory + "/" + kStateFile;
  // Not blocking, in case somebody put a FIFO there.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return cannot_open(path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return invalid(path, "not a regular file");
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return Error{Errc::denied, path + ": it belongs to uid " + std::to_string(info.st_uid) +
                                   ", who could end everybody who reads it; worlds are root's or "
                                   "one's own"};
  }
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(WorldHeader)) {
    return invalid(path, "truncated: no complete header");
  }
  WorldHeader header;
  if (::pread(file.get(), &header, sizeof header, 0) != ssize_t{sizeof header}) {
    return invalid(path, "truncated: no complete header");
  }
  if (auto good = check(header, path); !good) return std::move(good).error();
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(WorldFile)) {
    return invalid(path, "truncated");
  }
  const void* mapped = ::mmap(nullptr, sizeof(WorldFile), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return cannot_open(path);
  WorldReader reader(directory, std::move(file), static_cast<const WorldFile*>(mapped), header);
  if (auto known = reader.resolve_models(); !known) return std::move(known).error().in(path);
  if (opens == Opens::the_driver) hold(reader.fd_);
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
      keeper_pid_(other.keeper_pid_),
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

bool WorldReader::alive() const {
  if (!is_whole()) return false;
  const std::uint64_t published = load_word(file_->slots[generation() & 1].published_ns);
  const std::uint64_t now = boot_time_ns();
  return now < published || now - published < kStaleAfterNs;
}

// `copy(slot)` is run until it saw one generation alone; false if the keeper is dead or stopped.
template <class Copy>
bool WorldReader::copy_slot(Copy&& copy) const {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (attempt > 0) ::sched_yield();
    if (!is_whole()) return false;
    const std::uint64_t before = generation();
    const WorldSlot& slot = file_->slots[before & 1];
    const std::uint64_t published = load_word(slot.published_ns);
    copy(slot);
    // The writer touches this slot again only after it has published the next generation.
    if (generation() != before) continue;
    const std::uint64_t now = boot_time_ns();
    return now <= published || now - published < kStaleAfterNs;
  }
  return false;
}

std::optional<GpuRecord> WorldReader::record(std::uint32_t gpu) const {
  RecordWords words;
  const bool alive = copy_slot([&](const WorldSlot& slot) { load(slot.gpus[gpu], words); });
  return alive ? std::optional(std::bit_cast<GpuRecord>(words)) : std::nullopt;
}

std::optional<DriverRecord> WorldReader::driver() const {
  DriverWords words;
  const bool alive = copy_slot([&](const WorldSlot& slot) { load(slot.driver, words); });
  return alive ? std::optional(std::bit_cast<DriverRecord>(words)) : std::nullopt;
}

std::optional<Moment> WorldReader::moment(std::uint32_t gpu) const {
  DriverWords driver;
  RecordWords record;
  const bool alive = copy_slot([&](const WorldSlot& slot) {
    load(slot.driver, driver);
    load(slot.gpus[gpu], record);
  });
  if (!alive) return std::nullopt;
  return Moment{std::bit_cast<DriverRecord>(driver), std::bit_cast<GpuRecord>(record)};
}

}  // namespace gpuyard::sim
