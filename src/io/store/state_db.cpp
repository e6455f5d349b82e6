#include "store/state_db.h"

#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"

namespace gpuyard::store {
namespace {

// Errors: Errc::invalid if it is corrupt.
Result<void> check_whole(Database& database) {
  auto check = database.prepare("PRAGMA quick_check(1)");
  if (!check) return std::move(check).error();
  const auto row = check->step();
  if (!row) return row.error();
  if (check->text(0) == "ok") return {};
  return Error{Errc::invalid, fmt::format("{}: {}", database.path(), check->text(0))};
}

Result<void> bring_up_to_date(Database& database, StateDb::Layout steps) {
  const auto layout = database.layout();
  if (!layout) return layout.error();
  const auto newest = static_cast<std::int64_t>(steps.size());
  if (*layout == newest) return {};
  if (*layout > newest || *layout < 0) {
    return Error{Errc::conflict,
                 fmt::format("{} has layout {}, and this gpuyard knows {} at most: it is a newer "
                             "one's. Start that one, or move the file away",
                             database.path(), *layout, newest)};
  }
  return database.transaction([&]() -> Result<void> {
    for (auto step = static_cast<std::size_t>(*layout); step < steps.size(); ++step) {
      if (auto done = database.execute(steps[step]); !done) return done;
    }
    return database.set_layout(newest);
  });
}

}  // namespace

Result<void> StateDb::commit(std::span<const Work> works, Durability durability) {
  if (auto ready = open_or_put_aside(); !ready) return ready;
  if (auto set = database_->set_durability(durability); !set) return set;
  auto done = database_->transaction([&]() -> Result<void> {
    for (const Work& work : works) {
      if (auto worked = work(*database_); !worked) return worked;
    }
    return {};
  });
  if (!done) {
    database_->distrust();
    database_.reset();
  }
  return done;
}

Result<void> StateDb::open() {
  if (database_) return {};
  if (auto fit = place_(parent_directory(path_)); !fit) return fit;
  auto database = Database::open(path_, Durability::full);
  if (!database) return std::move(database).error();
  if (auto whole = check_whole(*database); !whole) return whole;
  if (auto current = bring_up_to_date(*database, layout_); !current) return current;
  database_.emplace(*std::move(database));
  return {};
}

Result<void> StateDb::open_or_put_aside() {
  auto opened = open();
  if (opened || opened.error().code != Errc::invalid) return opened;
  if (auto done = put_aside(opened.error()); !done) return done;
  return open();
}

Result<void> StateDb::put_aside(const Error& why) {
  if (put_aside_.size() >= kMostPutAside) return why;
  const std::string to = fmt::format("{}{}{}", path_, kPutAside, to_rfc3339(wall_now()));
  // The journal first: a new database must not meet the old one's.
  for (const char* const part : {"-wal", "-shm", ""}) {
    if (std::rename((path_ + part).c_str(), (to + part).c_str()) != 0 && errno != ENOENT) {
      return system_error(fmt::format("putting {}{} aside, which is corrupt", path_, part));
    }
  }
  put_aside_.push_back(
      fmt::format("{} was corrupt ({}), is kept as {}, and began anew", path_, why.message, to));
  return {};
}

}  // namespace gpuyard::store
