// SQLite on a DiskState: a VFS that is the default one while it lives, so that code that opens a
// database by its path opens it there.
#pragma once

#include <sqlite3.h>

#include <cstring>
#include <functional>
#include <set>

#include "io/store/fake_disk_for_tests.h"

namespace gpuyard::store {

class FakeDisk {
 public:
  // A directory that no real disk has: code that bypasses SQLite finds nothing there.
  static constexpr const char* kPath = "/no-such-directory/state.db";

  FakeDisk() {
    vfs_.iVersion = 1;
    vfs_.szOsFile = sizeof(File);
    vfs_.mxPathname = 512;
    vfs_.zName = "fake-disk";
    vfs_.pAppData = this;
    vfs_.xOpen = &open;
    vfs_.xDelete = &remove;
    vfs_.xAccess = &access;
    vfs_.xFullPathname = &full_name;
    vfs_.xRandomness = &randomness;
    vfs_.xSleep = [](sqlite3_vfs*, int microseconds) { return microseconds; };
    vfs_.xCurrentTime = [](sqlite3_vfs*, double* day) { return *day = 2'460'000.5, SQLITE_OK; };
    vfs_.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FakeDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }
  FakeDisk(const FakeDisk&) = delete;
  FakeDisk& operator=(const FakeDisk&) = delete;

  // Puts in another disk, on which nothing happened yet. Files that are open can do nothing any
  // more, as if the process that had them was killed.
  void insert(DiskState state) {
    state_ = std::move(state);
    steps_.clear();
    ++life_;
    fail_ = nullptr;
  }
  DiskState& state() { return state_; }
  // The steps since insert().
  const std::vector<DiskStep>& steps() const { return steps_; }
  // Chooses the error that SQLite gets instead of a step; SQLITE_OK: the step is taken.
  void fail(std::function<int(const DiskStep&)> fail) { fail_ = std::move(fail); }
  // Seeds SQLite's own random numbers, which are in its files.
  static void seed(std::uint32_t seed) {
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, static_cast<int>(seed | 1U), nullptr);
  }

 private:
  struct File {
    sqlite3_file base;
    FakeDisk* disk;
    std::uint64_t life;
    FileNumber number;
    bool syncs_name;  // its first sync also syncs its name, as in SQLite's own VFS
    bool temporary;
  };

  static FakeDisk& of(sqlite3_vfs* vfs) { return *static_cast<FakeDisk*>(vfs->pAppData); }
  static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  int take(DiskStep step) {
    if (const int failed = fail_ ? fail_(step) : SQLITE_OK; failed != SQLITE_OK) {
      if (step.kind != DiskStep::Kind::sync) return failed;
      step.kind = DiskStep::Kind::failed_sync;
      step.seed = steps_.size();
      state_.take(step);
      steps_.push_back(std::move(step));
      return failed;
    }
    state_.take(step);
    steps_.push_back(std::move(step));
    return SQLITE_OK;
  }
  int take(const File& file, DiskStep step) {
    if (file.life != life_) return SQLITE_IOERR;
    if (!file.temporary) return take(std::move(step));
    state_.take(step);
    return SQLITE_OK;
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* raw, int flags, int* out) {
    FakeDisk& disk = of(vfs);
    File& file = of(raw);
    file = {{nullptr}, &disk, disk.life_, 0, false, name == nullptr};
    const auto found = name != nullptr ? disk.state_.find(name) : std::nullopt;
    if (!found && name != nullptr && (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    file.number = found.value_or(disk.next_);
    if (!found) {
      ++disk.next_;
      if (name != nullptr) {
        DiskStep create{DiskStep::Kind::create, file.number, name};
        if (const int failed = disk.take(std::move(create)); failed != SQLITE_OK) return failed;
      }
    }
    file.syncs_name = (flags & SQLITE_OPEN_CREATE) != 0 &&
                      (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    file.base.pMethods = &kMethods;
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* name, int sync) {
    FakeDisk& disk = of(vfs);
    if (!disk.state_.find(name)) return SQLITE_IOERR_DELETE_NOENT;
    int done = disk.take({DiskStep::Kind::remove, 0, name});
    if (done == SQLITE_OK && sync != 0) done = disk.take({DiskStep::Kind::sync_names});
    return done;
  }
  static int access(sqlite3_vfs* vfs, const char* name, int, int* there) {
    *there = of(vfs).state_.find(name) ? 1 : 0;
    return SQLITE_OK;
  }
  static int full_name(sqlite3_vfs*, const char* name, int size, char* out) {
    return sqlite3_snprintf(size, out, "%s", name), SQLITE_OK;
  }
  static int randomness(sqlite3_vfs*, int size, char* out) {
    return std::memset(out, 0, static_cast<std::size_t>(size)), size;
  }

  static int read(sqlite3_file* raw, void* to, int amount, sqlite3_int64 at) {
    const File& file = of(raw);
    if (file.life != file.disk->life_) return SQLITE_IOERR_READ;
    const auto size = static_cast<std::size_t>(amount);
    const std::string& content = file.disk->content(file);
    const std::size_t from = std::min(content.size(), static_cast<std::size_t>(at));
    const std::size_t got = std::min(size, content.size() - from);
    std::memcpy(to, content.data() + from, got);
    if (got == size) return SQLITE_OK;
    std::memset(static_cast<char*>(to) + got, 0, size - got);
    return SQLITE_IOERR_SHORT_READ;
  }
  static int write(sqlite3_file* raw, const void* from, int amount, sqlite3_int64 at) {
    const File& file = of(raw);
    auto bytes = std::make_shared<const std::string>(static_cast<const char*>(from),
                                                     static_cast<std::size_t>(amount));
    return file.disk->take(
        file,
        {DiskStep::Kind::write, file.number, {}, static_cast<std::size_t>(at), std::move(bytes)});
  }
  static int truncate(sqlite3_file* raw, sqlite3_int64 size) {
    const File& file = of(raw);
    return file.disk->take(
        file, {DiskStep::Kind::truncate, file.number, {}, static_cast<std::size_t>(size)});
  }
  static int sync(sqlite3_file* raw, int) {
    File& file = of(raw);
    const int done = file.disk->take(file, {DiskStep::Kind::sync, file.number});
    if (done != SQLITE_OK || !file.syncs_name) return done;
    file.syncs_name = false;
    return file.disk->take(file, {DiskStep::Kind::sync_names});
  }
  static int file_size(sqlite3_file* raw, sqlite3_int64* size) {
    const File& file = of(raw);
    *size = static_cast<sqlite3_int64>(file.disk->content(file).size());
    return SQLITE_OK;
  }
  const std::string& content(const File& file) const { return state_.content(file.number); }

  // Without shared memory: the store has its databases for itself.
  static sqlite3_io_methods methods() {
    sqlite3_io_methods methods{};
    methods.iVersion = 1;
    methods.xClose = [](sqlite3_file*) { return SQLITE_OK; };
    methods.xRead = &read;
    methods.xWrite = &write;
    methods.xTruncate = &truncate;
    methods.xSync = &sync;
    methods.xFileSize = &file_size;
    methods.xLock = [](sqlite3_file*, int) { return SQLITE_OK; };
    methods.xUnlock = methods.xLock;
    methods.xCheckReservedLock = [](sqlite3_file*, int* taken) { return *taken = 0, SQLITE_OK; };
    methods.xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; };
    // Both answer as SQLite's own VFS for Linux does.
    methods.xSectorSize = [](sqlite3_file*) { return 4096; };
    methods.xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; };
    return methods;
  }

  inline static const sqlite3_io_methods kMethods = methods();
  sqlite3_vfs* real_ = sqlite3_vfs_find(nullptr);
  sqlite3_vfs vfs_{};
  DiskState state_;
  std::vector<DiskStep> steps_;
  std::uint64_t life_ = 1;
  FileNumber next_ = 1;
  std::function<int(const DiskStep&)> fail_;
};

}  // namespace gpuyard::store
