#include "io/store/state_db.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

// Errors: Errc::invalid if it is corrupt.
Result<void> check_integrity(Database& database) {
  auto check = database.prepare("PRAGMA quick_check(1)");
  if (!check) return std::move(check).error();
  const auto row = check->step();
  if (!row) return row.error();
  if (check->text(0) == "ok") return {};
  return Error{Errc::invalid, fmt::format("{}: {}", database.path(), check->text(0))};
}

Result<void> migrate(Database& database, StateDb::Migrations steps) {
  const auto version = database.schema_version();
  if (!version) return version.error();
  const auto newest = static_cast<std::int64_t>(steps.size());
  if (*version == newest) return {};
  if (*version > newest || *version < 0) {
    return Error{
        Errc::conflict,
        fmt::format("{} has layout {}, but this version of gpuyard supports {} at most: it was "
                    "written by a newer version. Start that version, or move the file away",
                    database.path(), *version, newest)};
  }
  return database.run_transaction([&]() -> Result<void> {
    for (auto step = static_cast<std::size_t>(*version); step < steps.size(); ++step) {
      if (auto done = database.execute(steps[step]); !done) return done;
    }
    return database.set_schema_version(newest);
  });
}

using FileSystemKind = std::pair<std::uint32_t, std::string_view>;

// From linux/magic.h where it is in there, else from the file system's own source. File systems
// that several machines mount from one shared disk are among them.
constexpr std::array kNetworkFileSystems = {
    FileSystemKind{0x6969, "NFS"},
    FileSystemKind{0x517b, "SMB"},
    FileSystemKind{0xfe534d42, "SMB"},
    FileSystemKind{0xff534d42, "CIFS"},
    FileSystemKind{0x5346414f, "AFS"},
    FileSystemKind{0x6b414653, "AFS"},
    FileSystemKind{0x73757245, "Coda"},
    FileSystemKind{0x564c, "NCP"},
    FileSystemKind{0x01021997, "9p"},
    FileSystemKind{0x00c36400, "CephFS"},
    FileSystemKind{0x0bd00bd0, "Lustre"},
    FileSystemKind{0x47504653, "GPFS"},
    FileSystemKind{0x19830326, "BeeGFS"},
    FileSystemKind{0xaad7aaea, "PanFS"},
    FileSystemKind{0x20030528, "OrangeFS"},
    FileSystemKind{0x01161970, "GFS2"},
    FileSystemKind{0x7461636f, "OCFS2"},
    FileSystemKind{0xbeefdead, "StorNext"},
    FileSystemKind{0x786f4256, "VirtualBox shared folder"},
    FileSystemKind{0xbacbacbc, "VMware shared folder"},
};

constexpr std::uint32_t kFuseMagic = 0x65735546;
// FUSE file systems that are served from elsewhere; the others (overlays, encryption, foreign
// disks) are as good as what they lie on.
constexpr std::array<std::string_view, 17> kNetworkFuseTypes = {
    "sshfs",  "glusterfs", "ceph",      "ceph-fuse", "s3fs",     "gcsfuse",
    "rclone", "juicefs",   "mfs",       "goofys",    "blobfuse", "blobfuse2",
    "davfs2", "beegfs",    "curlftpfs", "mount-s3",  "smbnetfs"};

constexpr std::size_t kMaxMountInfoBytes = 4U << 20U;

}  // namespace

void StateReader::allow() {
  const MutexLock lock(mutex_);
  allowed_ = true;
}

void StateReader::close() {
  const MutexLock lock(mutex_);
  database_.reset();
}

void StateReader::forbid() {
  const MutexLock lock(mutex_);
  database_.reset();
  allowed_ = false;
}

void StateReader::try_forbid() {
  if (!mutex_.try_lock()) return;
  database_.reset();
  allowed_ = false;
  mutex_.unlock();
}

Result<void> StateReader::open() {
  if (!allowed_) return Error{Errc::unavailable, path_ + " cannot be read now"};
  if (database_) return {};
  auto database = Database::open_reader(path_);
  if (!database) return std::move(database).error();
  database_.emplace(*std::move(database));
  return {};
}

Result<void> StateDb::commit(std::span<const Work> works, Durability durability) {
  if (auto ready = open_or_replace(); !ready) return ready;
  if (std::ranges::none_of(works, [](const Work& work) { return work != nullptr; })) return {};
  if (auto set = database_->set_durability(durability); !set) return set;
  auto done = database_->run_transaction([&]() -> Result<void> {
    for (const Work& work : works) {
      if (!work) continue;
      if (auto worked = work(*database_); !worked) return worked;
    }
    return {};
  });
  if (!done) {
    database_->keep_wal_on_close();
    database_.reset();  // with its remarks, which were rolled back
    // Otherwise the reader's connection would keep an outdated WAL index.
    reader_->close();
  } else {
    add_remarks(database_->take_remarks());
  }
  return done;
}

Result<void> StateDb::open() {
  if (database_) return {};
  if (auto fit = directory_check_(parent_directory(path_)); !fit) return fit;
  auto database = Database::open(path_, Durability::full, Database::Sharing::readers);
  if (!database) return std::move(database).error();
  if (auto whole = check_integrity(*database); !whole) return whole;
  if (auto current = migrate(*database, migrations_); !current) return current;
  const auto unreadable = unreadable_note(*database);
  if (!unreadable) return unreadable.error();
  if (!unreadable->empty()) add_remarks({*unreadable});
  database_.emplace(*std::move(database));
  reader_->allow();
  return {};
}

// Reopening the file finds the same content.
void StateDb::add_remarks(const std::vector<std::string>& remarks) {
  for (const std::string& one : remarks) {
    if (std::ranges::find(corruption_notes_, one) == corruption_notes_.end())
      corruption_notes_.push_back(one);
  }
}

Result<void> StateDb::open_or_replace() {
  auto opened = open();
  if (opened || opened.error().code != Errc::invalid) return opened;
  if (auto done = set_aside_corrupt(opened.error()); !done) return done;
  return open();
}

Result<void> StateDb::set_aside_corrupt(const Error& why) {
  if (corrupt_files_ >= kMaxCorruptFiles) return why;
  ++corrupt_files_;
  reader_->forbid();
  const std::string to = fmt::format("{}{}{}", path_, kCorruptSuffix, to_rfc3339(wall_now()));
  // The WAL first: a new database must not meet the WAL of the old one.
  for (const char* const part : {"-wal", "-shm", ""}) {
    if (std::rename((path_ + part).c_str(), (to + part).c_str()) != 0 && errno != ENOENT) {
      return system_error(fmt::format("moving the corrupt {}{} aside", path_, part));
    }
  }
  corruption_notes_.push_back(
      fmt::format("{} was corrupt ({}); it was moved to {} and replaced with a new one", path_,
                  why.text(), to));
  return {};
}

std::optional<std::string_view> network_file_system(std::uint32_t magic, std::string_view type) {
  for (const auto& [number, name] : kNetworkFileSystems) {
    if (number == magic) return name;
  }
  constexpr std::string_view kPrefix = "fuse.";
  if (magic != kFuseMagic || !type.starts_with(kPrefix)) return std::nullopt;
  for (const std::string_view name : kNetworkFuseTypes) {
    if (type.substr(kPrefix.size()) == name) return name;
  }
  return std::nullopt;
}

// "36 35 98:0 /root /mount rw,noatime shared:1 - ext3 /dev/root rw": the third field, and the first
// behind the lone hyphen.
std::string_view mount_type(std::string_view mountinfo, unsigned major, unsigned minor) {
  const std::string device = fmt::format(" {}:{} ", major, minor);
  while (!mountinfo.empty()) {
    const std::string_view line = take_until('\n', mountinfo);
    const std::size_t second = line.find(' ', line.find(' ') + 1);
    if (second == std::string_view::npos || !line.substr(second).starts_with(device)) continue;
    constexpr std::string_view kHyphen = " - ";
    const std::size_t hyphen = line.find(kHyphen);
    if (hyphen == std::string_view::npos) continue;
    const std::string_view rest = line.substr(hyphen + kHyphen.size());
    return rest.substr(0, rest.find(' '));
  }
  return {};
}

Result<void> check_local(const std::string& directory) {
  struct statfs system{};
  struct stat facts{};
  if (::statfs(directory.c_str(), &system) != 0) return {};
  const auto magic = static_cast<std::uint32_t>(system.f_type);
  std::string mounts;
  std::string_view type;
  if (magic == kFuseMagic && ::stat(directory.c_str(), &facts) == 0) {
    auto read = read_file("/proc/self/mountinfo", kMaxMountInfoBytes);
    if (read) mounts = *std::move(read);
    type = mount_type(mounts, major(facts.st_dev), minor(facts.st_dev));
  }
  const auto network = network_file_system(magic, type);
  if (!network) return {};
  return Error{
      Errc::denied,
      fmt::format(
          "{} is on a network file system ({}), whose locks and syncs are not reliable: a GPU "
          "could be leased twice. Use a directory on a local disk: gpuyard serve --state DIR",
          directory, *network)};
}

StateStore::StateStore(Worker& worker, Worker& read_worker, std::string path,
                       StateDb::Migrations migrations, StateDb::DirectoryCheck directory_check)
    : worker_(worker),
      read_worker_(read_worker),
      path_(path),
      database_(
          std::make_shared<StateDb>(std::move(path), migrations, std::move(directory_check))) {}

StateStore::~StateStore() {
  lifetime_.end();
  if (!waiting_->works.empty()) start_commit();
}

bool StateStore::run(const Requester& requester, StateDb::Work work, OnDone on_done,
                     Durability durability) {
  if (!waiting_->queue_limit.try_acquire(requester)) return false;
  if (work) {
    waiting_->writes = true;
    waiting_->durability = std::max(waiting_->durability, durability);
  }
  waiting_->works.push_back(std::move(work));
  waiting_->done.push_back(std::move(on_done));
  if (!committing_) start_commit();
  return true;
}

void StateStore::check_integrity() {
  run(Requester::daemon(), &store::check_integrity, [](const Result<void>&) {});
}

// If the worker has no room for the group, it waits until more work comes or the store ends.
void StateStore::start_commit() {
  const auto group = waiting_;
  const bool posted =
      worker_.post([group, database = database_,
                    on_result = lifetime_.guard([this, group](const CommitResult& commit_result) {
                      on_commit(*group, commit_result);
                    })]() -> Worker::Completion {
        CommitResult commit_result{database->commit(group->works, group->durability),
                                   database->corruption_notes()};
        return [commit_result = std::move(commit_result), on_result] { on_result(commit_result); };
      });
  if (!posted) return;
  committing_ = true;
  waiting_ = std::make_shared<CommitGroup>();
}

void StateStore::on_commit(const CommitGroup& group, const CommitResult& commit_result) {
  committing_ = false;
  for (std::size_t i = corruption_notes_.size(); i < commit_result.corruption_notes.size(); ++i) {
    log::warning("{}", commit_result.corruption_notes[i]);
  }
  corruption_notes_ = commit_result.corruption_notes;
  const auto error =
      commit_result.result ? std::nullopt : std::optional<Error>(commit_result.result.error());
  // Work without a write does not prove that the disk works again.
  if (error || group.writes) update_store_error(error);
  if (!waiting_->works.empty()) start_commit();
  for (const OnDone& on_done : group.done) on_done(commit_result.result);
}

void StateStore::update_store_error(const std::optional<Error>& error) {
  if (error && error != store_error_) log::warning("{}: {}", path_, error->text());
  if (store_error_ && !error) log::info("writing to {} again", path_);
  store_error_ = error;
}

std::vector<std::string> StateStore::notes() const {
  std::vector<std::string> notes = corruption_notes_;
  if (store_error_) {
    notes.push_back(fmt::format("cannot write to {}: {}; retrying", path_, store_error_->text()));
  }
  return notes;
}

}  // namespace gpuyard::store
