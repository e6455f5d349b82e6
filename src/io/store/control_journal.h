// The write-ahead journal of control: transactions that are not in state.db yet, in memory that
// survives the daemon, a file in a tmpfs, mapped and locked. A record is written in about a
// microsecond without a wait for a disk or a thread, so a change of a GPU does not wait for SQLite
// (decision 017). A reboot deletes the file, and resets the settings it is about; state.db survives
// both.
//
// The file has a head and two banks. Records go to one bank while state.db takes over what the
// other has. A record's length is written last: one that is torn does not exist.
//
//   head    what the file is, of which boot and which state directory
//   bank    its place in the order, then records: length, bytes; a length of 0 ends them
//
// Thread: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "core/control/audit.h"

namespace gpuyard::store {

class ControlJournal {
 public:
  // An old container runtime lets a process lock 64 KiB.
  static constexpr std::size_t kBytes = std::size_t{48} * 1024;
  // A set of banks, one bit each.
  using Banks = unsigned;

  // Opens the file of this owner in the runtime directory, or makes it, and locks it. `owner` is an
  // id of a state directory (state_id()). Records of another boot or in another layout are dropped.
  // Errc::unsupported: the directory is not in a tmpfs, so that a write could wait for a disk;
  // unavailable: there is no memory for it; denied, conflict: it is another user's or daemon's.
  static Result<std::unique_ptr<ControlJournal>> open(const std::string& directory,
                                                      const std::string& owner,
                                                      const std::string& boot_id);
  // Whether an earlier daemon has left the file.
  static bool exists(const std::string& directory, const std::string& owner);
  ~ControlJournal();
  ControlJournal(const ControlJournal&) = delete;
  ControlJournal& operator=(const ControlJournal&) = delete;

  // Returns the records, oldest first. Errc::invalid: one of them is unreadable.
  Result<std::vector<control::ControlTransaction>> records() const;
  // Writes a record. Returns false, and writes nothing, if it does not fit.
  bool append(const control::ControlTransaction&);
  // True if the bank that records go to has little room left, and the other one is free.
  bool is_nearly_full() const;
  // Returns the banks that have records now. Later records go to another one, or to none.
  Banks seal();
  // Removes the records of these banks, which state.db has.
  void clear(Banks);
  // Removes the file, if it has no records.
  void remove_if_empty();
  // False if somebody has removed the file: the next daemon would not find it.
  bool has_name() const;

 private:
  struct File;
  static constexpr std::size_t kBankCount = 2;

  ControlJournal(std::string path, UniqueFd descriptor, File* file);
  std::optional<std::size_t> free_bank() const;
  bool has_records(std::size_t bank) const;
  std::array<std::size_t, kBankCount> banks_by_age() const;  // oldest first

  const std::string path_;
  const UniqueFd descriptor_;  // holds the lock
  File* const file_;           // mapped
  std::optional<std::size_t> active_;
  std::size_t used_ = 0;  // bytes of the active bank
  std::uint64_t last_order_ = 0;
};

// The id of a state directory names its journal. Each daemon that begins to write there gives it a
// new one, so that no journal from before is ever taken for a newer state than state.db's.
// Errc::not_found: it has none yet.
Result<std::string> state_id(const std::string& directory);
Result<std::string> renew_state_id(const std::string& directory);

// As they are in a record; for tests.
std::string encode(const control::ControlTransaction&);
std::optional<control::ControlTransaction> decode(std::string_view);

}  // namespace gpuyard::store
