#include "store/energy_db.h"

#include <utility>

#include "store/rows.h"

namespace gpuyard::store {
namespace {

using energy::AccountState;
using energy::Books;
using energy::KeptAccount;
using energy::Window;
using energy::WindowGpu;

KeptAccount account_of(const Statement& row) {
  KeptAccount kept;
  kept.uuid = row.text(0);
  AccountState& state = kept.state;
  state.session = {std::string(row.text(2)), std::string(row.text(3)), row.integer(1) != 0};
  state.epoch = static_cast<std::uint64_t>(row.integer(4));
  state.first_seen = wall_of(row.integer(5));
  state.epoch_since = wall_of(row.integer(6));
  state.epoch_start_mj = row.integer(7);
  state.last = point_of(row.integer(8));
  state.last_wall = wall_of(row.integer(9));
  state.counter_mj = optional_integer(row, 10);
  state.amounts = {row.integer(11), row.integer(12), row.integer(13), Duration(row.integer(14))};
  return kept;
}

Window window_of(const Statement& row) {
  Window window;
  window.id = row.text(0);
  window.name = row.text(1);
  window.owner = static_cast<uid_t>(row.integer(2));
  window.boot_id = row.text(3);
  window.simulated = row.integer(4) != 0;
  window.began = point_of(row.integer(5));
  window.began_wall = wall_of(row.integer(6));
  window.most = Duration(row.integer(7));
  return window;
}

WindowGpu window_gpu_of(const Statement& row) {
  WindowGpu gpu;
  gpu.uuid = row.text(1);
  gpu.begin = {row.integer(2), row.integer(3), Duration(row.integer(4)),
               static_cast<std::uint64_t>(row.integer(5)), point_of(row.integer(6))};
  gpu.peak_mw = optional_integer(row, 7);
  return gpu;
}

Result<void> put_accounts(Database& database, const std::vector<KeptAccount>& accounts) {
  auto put = database.prepare(
      "INSERT OR REPLACE INTO energy_accounts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const auto& [uuid, state] : accounts) {
    put->bind(1, uuid).bind(2, std::int64_t{state.session.simulated});
    put->bind(3, state.session.boot_id).bind(4, state.session.driver);
    put->bind(5, static_cast<std::int64_t>(state.epoch));
    put->bind(6, ms(state.first_seen)).bind(7, ms(state.epoch_since));
    put->bind(8, state.epoch_start_mj).bind(9, ns(state.last)).bind(10, ms(state.last_wall));
    bind_optional(*put, 11, state.counter_mj);
    put->bind(12, state.amounts.unattributed_mj).bind(13, state.amounts.daemon_down_mj);
    put->bind(14, state.amounts.estimated_mj);
    put->bind(15, std::int64_t{state.amounts.unknown.count()});
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> put_gpus(Statement& put, const Window& window) {
  std::int64_t place = 0;
  for (const WindowGpu& gpu : window.gpus) {
    put.bind(1, window.id).bind(2, place++).bind(3, gpu.uuid);
    put.bind(4, gpu.begin.device_mj).bind(5, gpu.begin.estimated_mj);
    put.bind(6, std::int64_t{gpu.begin.unknown.count()});
    put.bind(7, static_cast<std::int64_t>(gpu.begin.epoch)).bind(8, ns(gpu.begin.taken));
    bind_optional(put, 9, gpu.peak_mw);
    if (auto done = put.run(); !done) return done;
  }
  return {};
}

Result<void> put_windows(Database& database, const std::vector<Window>& windows) {
  auto put = database.prepare("INSERT OR REPLACE INTO energy_windows VALUES(?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  auto put_gpu =
      database.prepare("INSERT OR REPLACE INTO energy_window_gpus VALUES(?,?,?,?,?,?,?,?,?)");
  if (!put_gpu) return std::move(put_gpu).error();
  for (const Window& window : windows) {
    put->bind(1, window.id).bind(2, window.name).bind(3, std::int64_t{window.owner});
    put->bind(4, window.boot_id).bind(5, std::int64_t{window.simulated});
    put->bind(6, ns(window.began)).bind(7, ms(window.began_wall));
    put->bind(8, std::int64_t{window.most.count()});
    if (auto done = put->run(); !done) return done;
    if (auto done = put_gpus(*put_gpu, window); !done) return done;
  }
  return {};
}

Result<void> remove_windows(Database& database, const std::vector<std::string>& ids) {
  for (const char* const query :
       {"DELETE FROM energy_windows WHERE id=?", "DELETE FROM energy_window_gpus WHERE id=?"}) {
    auto remove = database.prepare(query);
    if (!remove) return std::move(remove).error();
    for (const std::string& id : ids) {
      if (auto done = remove->bind(1, id).run(); !done) return done;
    }
  }
  return {};
}

}  // namespace

Result<Books> load_energy(Database& database) {
  Books books;
  auto read =
      each_row(database,
               "SELECT uuid, simulated, boot_id, driver, epoch, first_seen_ms, epoch_since_ms, "
               "epoch_start_mj, last_ns, "
               "last_ms, counter_mj, unattributed_mj, daemon_down_mj, estimated_mj, unknown_ns "
               "FROM energy_accounts ORDER BY uuid, simulated",
               [&](const Statement& row) { books.accounts.push_back(account_of(row)); });
  if (!read) return std::move(read).error();
  read = each_row(database,
                  "SELECT id, name, owner, boot_id, simulated, began_ns, began_ms, most_ns "
                  "FROM energy_windows ORDER BY id",
                  [&](const Statement& row) { books.windows.push_back(window_of(row)); });
  if (!read) return std::move(read).error();
  auto window = books.windows.begin();
  read = each_row(database,
                  "SELECT id, uuid, device_mj, estimated_mj, unknown_ns, epoch, taken_ns, peak_mw "
                  "FROM energy_window_gpus ORDER BY id, place",
                  [&](const Statement& row) {
                    while (window != books.windows.end() && window->id < row.text(0)) ++window;
                    if (window == books.windows.end() || window->id != row.text(0)) return;
                    window->gpus.push_back(window_gpu_of(row));
                  });
  if (!read) return std::move(read).error();
  return books;
}

Result<void> save_energy(Database& database, const energy::Changes& changes) {
  if (changes.everything) {
    if (auto done = database.execute("DELETE FROM energy_windows; DELETE FROM energy_window_gpus");
        !done) {
      return done;
    }
  }
  if (auto done = put_accounts(database, changes.now.accounts); !done) return done;
  if (auto done = put_windows(database, changes.now.windows); !done) return done;
  return remove_windows(database, changes.ended);
}

bool EnergyDb::load(std::function<void(Result<Books>)> loaded) {
  return store_.ask<Books>(&load_energy, std::move(loaded));
}

bool EnergyDb::save(energy::Changes changes, std::function<void(const Result<void>&)> saved) {
  return store_.run([changes = std::make_shared<const energy::Changes>(std::move(changes))](
                        Database& database) { return save_energy(database, *changes); },
                    std::move(saved));
}

}  // namespace gpuyard::store
