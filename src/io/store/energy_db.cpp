#include "io/store/energy_db.h"

#include <utility>

#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

using energy::LedgerState;
using energy::SavedAccount;
using energy::Window;
using energy::WindowGpu;

constexpr auto kAccount = [](auto& row, auto& account) {
  auto& state = account.state;
  row(account.uuid, state.session.simulated, state.session.boot_id, state.session.driver,
      state.epoch, state.first_seen, state.epoch_since, state.epoch_start_mj, state.last_reading_at,
      state.last_reading_wall, state.counter_mj);
  auto& amounts = state.amounts;
  row(amounts.unattributed_mj, amounts.daemon_down_mj, amounts.estimated_mj, amounts.unknown);
};
constexpr auto kWindow = [](auto& row, auto& window) {
  row(window.id, window.name, window.owner, window.boot_id, window.simulated, window.began_at,
      window.began_wall, window.max_duration);
};
// The columns behind the window's id and, in the table, its place.
constexpr auto kWindowGpu = [](auto& row, auto& gpu) {
  auto& begin = gpu.begin;
  row(gpu.uuid, begin.device_mj, begin.estimated_mj, begin.unknown, begin.epoch, begin.taken,
      gpu.peak_mw);
};

Result<void> put_windows(Database& database, const std::vector<Window>& windows) {
  auto done = run_for_each(
      database, "INSERT OR REPLACE INTO energy_windows VALUES(?,?,?,?,?,?,?,?)", windows, kWindow);
  if (!done || windows.empty()) return done;
  auto put =
      database.prepare("INSERT OR REPLACE INTO energy_window_gpus VALUES(?,?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const Window& window : windows) {
    std::int64_t position = 0;
    for (const WindowGpu& gpu : window.gpus) {
      RowWriter row(*put);
      row(window.id, position++);
      kWindowGpu(row, gpu);
      if (done = put->run(); !done) return done;
    }
  }
  return {};
}

Result<void> remove_windows(Database& database, const std::vector<std::string>& ids) {
  auto done = run_for_each(database, "DELETE FROM energy_windows WHERE id=?", ids, kSingleColumn);
  if (!done) return done;
  return run_for_each(database, "DELETE FROM energy_window_gpus WHERE id=?", ids, kSingleColumn);
}

}  // namespace

Result<LedgerState> load_energy(Database& database) {
  LedgerState state;
  const RowSelection accounts{
      "energy_accounts", "uuid || ' ' || simulated",
      "uuid, simulated, boot_id, driver, epoch, first_seen_ms, epoch_since_ms, epoch_start_mj, "
      "last_ns, last_ms, counter_mj, unattributed_mj, daemon_down_mj, estimated_mj, unknown_ns",
      "ORDER BY uuid, simulated"};
  const RowSelection windows{"energy_windows", "id",
                             "id, name, owner, boot_id, simulated, began_ns, began_ms, most_ns",
                             "ORDER BY id"};
  auto sound = read_rows(state.accounts, database, accounts, kAccount);
  if (sound) sound = read_rows(state.windows, database, windows, kWindow);
  if (!sound) return std::move(sound).error();
  auto window = state.windows.begin();
  auto read =
      each_row(database,
               "SELECT id, uuid, device_mj, estimated_mj, unknown_ns, epoch, taken_ns, peak_mw "
               "FROM energy_window_gpus ORDER BY id, place",
               [&](const Statement& row) {
                 while (window != state.windows.end() && window->id < row.text(0)) ++window;
                 if (window == state.windows.end() || window->id != row.text(0)) return;
                 window->gpus.push_back(record_of<WindowGpu>(row, kWindowGpu, 1));
               });
  if (!read) return std::move(read).error();
  return state;
}

Result<void> save_energy(Database& database, const energy::EnergyTransaction& transaction) {
  if (transaction.everything) {
    if (auto done = database.execute("DELETE FROM energy_windows; DELETE FROM energy_window_gpus");
        !done) {
      return done;
    }
  }
  auto accounts = run_for_each(
      database, "INSERT OR REPLACE INTO energy_accounts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      transaction.state.accounts, kAccount);
  if (!accounts) return accounts;
  GPUYARD_TRY(put_windows(database, transaction.state.windows));
  return remove_windows(database, transaction.ended_windows);
}

bool EnergyDb::load(std::function<void(Result<LedgerState>)> on_done) {
  return store_.load<LedgerState>(&load_energy, std::move(on_done));
}

bool EnergyDb::save(energy::EnergyTransaction transaction,
                    std::function<void(const Result<void>&)> on_done) {
  return store_.run(
      Requester::daemon(),
      [transaction = std::make_shared<const energy::EnergyTransaction>(std::move(transaction))](
          Database& database) { return save_energy(database, *transaction); },
      std::move(on_done));
}

}  // namespace gpuyard::store
