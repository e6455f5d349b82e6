#include "io/store/machine_db.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

// The two counters of uncorrectable errors.
std::optional<std::string> word_of(const std::optional<Metric>& source) {
  if (!source) return std::nullopt;
  return *source == Metric::ecc_uncorrected_volatile ? "volatile" : "aggregate";
}

bool read_source(const std::optional<std::string>& word, std::optional<Metric>& source) {
  source.reset();
  if (!word) return true;
  if (*word == "aggregate") source = Metric::ecc_uncorrected_aggregate;
  if (*word == "volatile") source = Metric::ecc_uncorrected_volatile;
  return source.has_value();
}

constexpr auto kBoard = [](auto& row, auto& board) {
  row(board.uuid, board.index, board.pci_address, board.name, board.listed, board.first_seen,
      board.last_seen, board.boot_id);
  auto& errors = board.errors;
  row.as(errors.source, word_of, read_source);
  row(errors.base, errors.total, errors.since_load, errors.contained, errors.contained_pids,
      errors.suspects);
};

// Without its row, new memory errors of the board cannot be told from old ones.
constexpr RowSelection boards_of(std::string_view rest) {
  return {"machine_boards",
          "machine || ' ' || uuid",
          "uuid, gpu_index, pci_address, name, listed, first_seen_ms, last_seen_ms, boot_id, "
          "ecc_source, ecc_base, ecc_total, ecc_since_load, ecc_contained, ecc_waiting, "
          "ecc_suspects",
          rest,
          "json_array(uuid)",
          "a record"};
}

}  // namespace

Result<std::vector<KnownBoard>> load_boards(Database& database, const std::string& machine) {
  std::vector<KnownBoard> boards;
  GPUYARD_TRY(read_rows(boards, database, boards_of("WHERE machine=? ORDER BY gpu_index, uuid"),
                        kBoard, machine));
  return boards;
}

Result<void> set_aside_bad_boards(Database& database) {
  std::vector<KnownBoard> boards;
  return read_rows(boards, database, boards_of(""), kBoard);
}

Result<void> save_boards(Database& database, const MachineTransaction& transaction) {
  if (!transaction.replaces.empty()) {
    auto done =
        run(database, "DELETE FROM machine_boards WHERE machine<>?1 AND substr(machine,1,?2)=?3",
            transaction.machine, transaction.replaces.size(), transaction.replaces);
    if (!done) return done;
  }
  auto put = run_for_each(
      database, "INSERT OR REPLACE INTO machine_boards VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      transaction.boards, [&](auto& row, const KnownBoard& board) {
        row(transaction.machine);
        kBoard(row, board);
      });
  if (!put) return put;
  return run_for_each(database, "DELETE FROM machine_boards WHERE machine=? AND uuid=?",
                      transaction.taken_out,
                      [&](auto& row, const std::string& uuid) { row(transaction.machine, uuid); });
}

bool MachineDb::load(const std::string& machine,
                     std::function<void(Result<std::vector<KnownBoard>>)> on_done) {
  return store_.load<std::vector<KnownBoard>>(
      [machine](Database& database) { return load_boards(database, machine); }, std::move(on_done));
}

bool MachineDb::save(MachineTransaction transaction, Durability durability,
                     std::function<void(const Result<void>&)> on_done) {
  return store_.run(
      Requester::daemon(),
      [shared = std::make_shared<const MachineTransaction>(std::move(transaction))](
          Database& database) { return save_boards(database, *shared); },
      std::move(on_done), durability);
}

}  // namespace gpuyard::store
