#include "io/store/state_db.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/try.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

Result<void> migrate(Database& database, StateDb::Migrations steps) {
  const auto version = GPUYARD_TRY(database.schema_version());
  const auto newest = static_cast<std::int64_t>(steps.size());
  if (version == newest) return {};
  if (version > newest || version < 0) {
    return Error{
        Errc::conflict,
        fmt::format("{} has layout {}, but this version of gpuyard supports {} at most: it was "
                    "written by a newer version. Start that version, or move the file away",
                    database.path(), version, newest)};
  }
  return database.run_transaction([&]() -> Result<void> {
    for (auto step = static_cast<std::size_t>(version); step < steps.size(); ++step) {
      GPUYARD_TRY(database.execute(steps[step]));
    }
    return database.set_schema_version(newest);
  });
}

}  // namespace

Result<void> check_integrity(Database& database) {
  auto check = database.prepare("PRAGMA quick_check(1)");
  if (!check) return std::move(check).error();
  GPUYARD_TRY(check->step());
  if (check->text(0) == "ok") return {};
  return Error{Errc::invalid, fmt::format("{}: {}", database.path(), check->text(0))};
}

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
  auto database = GPUYARD_TRY(Database::open_reader(path_));
  database_.emplace(std::move(database));
  return {};
}

Result<void> StateDb::commit(std::span<const Work> works, Durability durability) {
  GPUYARD_TRY(open_or_replace());
  if (std::ranges::none_of(works, [](const Work& work) { return work != nullptr; })) return {};
  GPUYARD_TRY(database_->set_durability(durability));
  auto done = database_->run_transaction([&]() -> Result<void> {
    for (const Work& work : works) {
      if (!work) continue;
      GPUYARD_TRY(work(*database_));
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
  GPUYARD_TRY(directory_check_(parent_directory(path_)));
  auto database = GPUYARD_TRY(Database::open(path_, Durability::full, Database::Sharing::readers));
  GPUYARD_TRY(check_integrity(database));
  GPUYARD_TRY(migrate(database, migrations_));
  const auto unreadable = unreadable_note(database);
  if (!unreadable) return unreadable.error();
  if (!unreadable->empty()) add_remarks({*unreadable});
  database_.emplace(std::move(database));
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
  GPUYARD_TRY(set_aside_corrupt(opened.error()));
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

}  // namespace gpuyard::store
