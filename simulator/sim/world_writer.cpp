#include "sim/world_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "base/files.h"

namespace gpuyard::sim {
namespace {

WorldHeader make_header(const World& world) {
  WorldHeader header;
  header.magic = kWorldMagic;
  header.layout_version = kLayoutVersion;
  header.gpu_count = static_cast<std::uint32_t>(world.gpus.size());
  header.file_size = sizeof(WorldFile);
  const std::string boot = current_boot_id();
  boot.copy(header.boot_id, sizeof header.boot_id - 1);
  header.server_pid = ::getpid();
  return header;
}

// Creates a file of the right size, not yet under its name. 0644 whatever the umask: other users
// may read it.
Result<UniqueFd> create_file(const std::string& path) {
  ::unlink(path.c_str());
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file || ::fchmod(file.get(), 0644) != 0) return system_error("creating " + path);
  // Allocated, not sparse: a full disk is an error now instead of a SIGBUS later.
  if (const int code = ::posix_fallocate(file.get(), 0, sizeof(WorldFile)); code != 0) {
    errno = code;
    return system_error("allocating " + path);
  }
  return file;
}

std::uint64_t inode_of(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

template <class Words, class T>
void store(Words& place, const T& value) {
  const auto words = std::bit_cast<Words>(value);
  for (std::size_t w = 0; w < words.size(); ++w) store_word(place[w], words[w]);
}

template <class Log, class T>
void append(Log& log, T& entry) {
  const std::uint64_t count = load_word(log.count) + 1;
  entry.sequence = count;
  entry.at_ns = boot_time_ns();
  store(log.entries[count % Log::kSlots], entry);
  store_word(log.count, count);
}

}  // namespace

Result<WorldWriter> WorldWriter::create(const std::string& directory, const World& world) {
  const std::string path = directory + "/" + kStateFile;
  const std::string unnamed = path + ".new";
  auto file = create_file(unnamed);
  if (!file) return std::move(file).error();
  void* mapped =
      ::mmap(nullptr, sizeof(WorldFile), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
  if (mapped == MAP_FAILED) return system_error("mapping " + path);

  // No constructor runs: a new file is zero, as is every part of a new WorldFile, and unused room
  // should cost no memory.
  static_assert(std::is_trivially_copyable_v<WorldFile>);
  auto* content = static_cast<WorldFile*>(mapped);
  const std::uint64_t inode = inode_of(file->get());
  WorldWriter writer(path, content, *std::move(file), inode);
  content->header = make_header(world);
  for (std::size_t i = 0; i < world.gpus.size(); ++i) {
    content->identities[i] = world.gpus[i].identity;
  }
  writer.publish(world);
  if (::rename(unnamed.c_str(), path.c_str()) != 0) return system_error("naming " + path);
  return writer;
}

WorldWriter::WorldWriter(WorldWriter&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, nullptr)),
      descriptor_(std::move(other.descriptor_)),
      inode_(other.inode_) {}

WorldWriter::~WorldWriter() {
  if (file_ == nullptr) return;
  if (is_linked()) ::unlink(path_.c_str());
  ::munmap(file_, sizeof(WorldFile));
}

void WorldWriter::publish(const World& world) {
  const std::uint64_t next = load_word(file_->generation) + 1;
  WorldSlot& slot = file_->slots[next & 1];
  store_word(slot.published_ns, boot_time_ns());
  store(slot.driver, driver_record_of(world));
  for (std::size_t i = 0; i < world.gpus.size(); ++i) {
    store(slot.gpus[i], record_of(world.gpus[i]));
  }
  store_word(file_->generation, next);
}

void WorldWriter::publish_processes(const World& world) {
  const std::uint64_t next = load_word(file_->process_generation) + 1;
  ProcessTable& table = file_->processes[next & 1];
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < world.gpus.size(); ++i) {
    const auto& list = world.gpus[i].processes.list();
    store_word(table.ranges[i], place << 32 | list.size());
    for (const ProcessRecord& process : list) store(table.entries[place++], process);
  }
  store_word(file_->process_generation, next);
}

void WorldWriter::log_write(WriteRecord record) {
  append(file_->writes, record);
}

void WorldWriter::log_event(EventRecord record) {
  append(file_->events, record);
}

bool WorldWriter::is_driver_open() const {
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(descriptor_.get(), LOCK_UN);
  return false;
}

bool WorldWriter::is_linked() const {
  struct stat info{};
  return ::stat(path_.c_str(), &info) == 0 && info.st_ino == inode_;
}

}  // namespace gpuyard::sim
