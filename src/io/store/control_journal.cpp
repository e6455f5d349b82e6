#include "io/store/control_journal.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/identifiers.h"
#include "base/text.h"
#include "base/try.h"
#include "io/store/column_bytes.h"
#include "io/store/control_tables.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

using control::ControlTransaction;
using control::ManagedSetting;
using control::SettingClaim;

// Changes with the layout of the file, and with what is in a record.
constexpr std::string_view kLayout = "control journal 1";
constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kNameBytes = 64;

using Length = std::uint32_t;

constexpr auto kKey = [](auto& row, auto& managed) { row(managed.gpu, managed.kind); };

std::string path_of(const std::string& directory, const std::string& owner) {
  return directory + "/control-" + owner + ".journal";
}

Error no_journal(Errc code, std::string why) {
  return {code, "changes of GPUs wait for state.db, which takes longer", std::move(why)};
}

}  // namespace

struct ControlJournal::File {
  struct Head {
    std::array<char, kNameBytes> layout;
    std::array<char, kNameBytes> boot_id;
    std::array<char, kNameBytes> owner;
  };
  struct Bank {
    static constexpr std::size_t kRoom = (kBytes - kHeadBytes) / kBankCount - sizeof(std::uint64_t);
    std::uint64_t order;
    alignas(Length) std::array<char, kRoom> records;

    // The length of the record at this place, which ends a bank where it is 0.
    std::atomic_ref<Length> length_at(std::size_t at) {
      return std::atomic_ref<Length>(*reinterpret_cast<Length*>(records.data() + at));
    }
  };

  union {
    Head head;
    std::array<char, kHeadBytes> head_page;
  };
  std::array<Bank, kBankCount> banks;
};

namespace {

std::array<char, kNameBytes> padded(std::string_view name) {
  std::array<char, kNameBytes> bytes{};
  name.copy(bytes.data(), bytes.size() - 1);
  return bytes;
}

// Records lie at multiples of this, so that a length is written at once.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + sizeof(Length) - 1) / sizeof(Length) * sizeof(Length);
}

Result<UniqueFd> open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return no_journal(Errc::unavailable, system_error("opening " + path).text());
  struct stat info{};
  struct statfs system{};
  if (::fstat(file.get(), &info) != 0 || ::fstatfs(file.get(), &system) != 0)
    return no_journal(Errc::unavailable, system_error("opening " + path).text());
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0)
    return no_journal(Errc::denied, path + " is not a file of this user with mode 0600");
  if (system.f_type != TMPFS_MAGIC) {
    ::unlink(path.c_str());
    return no_journal(Errc::unsupported, parent_directory(path) + " is not in a tmpfs");
  }
  // A copy of a state directory has the same id.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return no_journal(Errc::conflict, path + " is locked by another process");
  return file;
}

}  // namespace

Result<std::unique_ptr<ControlJournal>> ControlJournal::open(const std::string& directory,
                                                             const std::string& owner,
                                                             const std::string& boot_id) {
  static_assert(sizeof(File) == kBytes);
  const std::string path = path_of(directory, owner);
  auto file = GPUYARD_TRY(open_file(path));
  // Memory that is not there would end the daemon at the first write.
  if (const int failed = ::posix_fallocate(file.get(), 0, sizeof(File)); failed != 0) {
    errno = failed;
    return no_journal(Errc::unavailable, system_error("making room in " + path).text());
  }
  void* const mapped =
      ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED)
    return no_journal(Errc::unavailable, system_error("mapping " + path).text());
  std::unique_ptr<ControlJournal> journal(
      new ControlJournal(path, std::move(file), static_cast<File*>(mapped)));
  // A page that was swapped out would be read from a disk.
  if (::mlock(mapped, sizeof(File)) != 0)
    return no_journal(Errc::unavailable, system_error("locking the memory of " + path).text());
  const File::Head head{padded(kLayout), padded(boot_id), padded(owner)};
  if (std::memcmp(&journal->file_->head, &head, sizeof head) != 0) {
    journal->clear(~Banks{0});
    journal->file_->head = head;
  }
  for (const File::Bank& bank : journal->file_->banks)
    journal->last_order_ = std::max(journal->last_order_, bank.order);
  return journal;
}

bool ControlJournal::exists(const std::string& directory, const std::string& owner) {
  return ::access(path_of(directory, owner).c_str(), F_OK) == 0;
}

ControlJournal::ControlJournal(std::string path, UniqueFd descriptor, File* file)
    : path_(std::move(path)), descriptor_(std::move(descriptor)), file_(file) {}

ControlJournal::~ControlJournal() {
  ::munmap(file_, sizeof(File));
}

bool ControlJournal::has_records(std::size_t bank) const {
  return file_->banks.at(bank).length_at(0).load(std::memory_order_acquire) != 0;
}

std::optional<std::size_t> ControlJournal::free_bank() const {
  for (std::size_t bank = 0; bank < kBankCount; ++bank) {
    if (!has_records(bank)) return bank;
  }
  return std::nullopt;
}

std::array<std::size_t, ControlJournal::kBankCount> ControlJournal::banks_by_age() const {
  std::array<std::size_t, kBankCount> banks{};
  for (std::size_t bank = 0; bank < kBankCount; ++bank) banks.at(bank) = bank;
  std::ranges::sort(banks, {}, [&](std::size_t bank) { return file_->banks.at(bank).order; });
  return banks;
}

Result<std::vector<ControlTransaction>> ControlJournal::records() const {
  std::vector<ControlTransaction> records;
  for (const std::size_t number : banks_by_age()) {
    File::Bank& bank = file_->banks.at(number);
    for (std::size_t at = 0; at + sizeof(Length) <= File::Bank::kRoom;) {
      const Length length = bank.length_at(at).load(std::memory_order_acquire);
      if (length == 0) break;
      at += sizeof(Length);
      if (length > File::Bank::kRoom - at)
        return Error{Errc::invalid, path_ + ": a record is longer than its bank"};
      auto record = decode({bank.records.data() + at, length});
      if (!record) return Error{Errc::invalid, path_ + ": a record is not readable"};
      records.push_back(*std::move(record));
      at += aligned(length);
    }
  }
  return records;
}

bool ControlJournal::append(const ControlTransaction& transaction) {
  if (!active_) {
    active_ = free_bank();
    if (!active_) return false;
    file_->banks.at(*active_).order = ++last_order_;
    used_ = 0;
  }
  File::Bank& bank = file_->banks.at(*active_);
  const std::string bytes = encode(transaction);
  const std::size_t next = used_ + sizeof(Length) + aligned(bytes.size());
  // The end of the records needs a length of its own.
  if (next + sizeof(Length) > File::Bank::kRoom) return false;
  bank.length_at(next).store(0, std::memory_order_relaxed);
  std::ranges::copy(bytes, bank.records.data() + used_ + sizeof(Length));
  bank.length_at(used_).store(static_cast<Length>(bytes.size()), std::memory_order_release);
  used_ = next;
  return true;
}

bool ControlJournal::is_nearly_full() const {
  return active_ && used_ > File::Bank::kRoom / 4 * 3 && free_bank();
}

ControlJournal::Banks ControlJournal::seal() {
  active_.reset();
  Banks banks = 0;
  for (std::size_t bank = 0; bank < kBankCount; ++bank) {
    if (has_records(bank)) banks |= 1U << bank;
  }
  return banks;
}

// The oldest first: a daemon that is killed in between must not leave older records than it
// removed.
void ControlJournal::clear(Banks banks) {
  for (const std::size_t bank : banks_by_age()) {
    if ((banks & 1U << bank) != 0)
      file_->banks.at(bank).length_at(0).store(0, std::memory_order_release);
  }
}

bool ControlJournal::has_name() const {
  struct stat info{};
  return ::fstat(descriptor_.get(), &info) == 0 && info.st_nlink > 0;
}

void ControlJournal::remove_if_empty() {
  if (seal() == 0) ::unlink(path_.c_str());
}

std::string encode(const ControlTransaction& transaction) {
  ColumnBytes bytes;
  RowWriter row(bytes);
  row(transaction.put.has_value(), transaction.removed.has_value(), transaction.audit.has_value());
  if (transaction.put) {
    kManagedSettingColumns(row, *transaction.put);
    row(static_cast<std::int64_t>(transaction.put->claims.size()));
    for (const SettingClaim& claim : transaction.put->claims) kClaimColumns(row, claim);
  }
  if (transaction.removed) kKey(row, *transaction.removed);
  if (transaction.audit) kAuditColumns(row, *transaction.audit);
  return std::move(bytes).take();
}

std::optional<ControlTransaction> decode(std::string_view bytes) {
  const BytesColumns columns(bytes);
  RowReader row(columns);
  bool put = false;
  bool removed = false;
  bool audit = false;
  row(put, removed, audit);
  ControlTransaction transaction;
  if (put) {
    ManagedSetting& managed = transaction.put.emplace();
    kManagedSettingColumns(row, managed);
    std::int64_t claims = 0;
    row(claims);
    for (; claims > 0 && columns.is_valid(); --claims) {
      kClaimColumns(row, managed.claims.emplace_back());
    }
  }
  if (removed) kKey(row, transaction.removed.emplace());
  if (audit) kAuditColumns(row, transaction.audit.emplace());
  const bool whole = columns.is_valid() && row.fault().empty();
  return whole ? std::optional(std::move(transaction)) : std::nullopt;
}

namespace {

std::string id_file(const std::string& directory) {
  return directory + "/id";
}

}  // namespace

Result<std::string> state_id(const std::string& directory) {
  constexpr std::size_t kMaxIdBytes = 64;
  const auto text = GPUYARD_TRY(read_file(id_file(directory), kMaxIdBytes));
  const std::string_view id = trim(text);
  const bool valid = !id.empty() && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
  });
  if (valid) return std::string(id);
  return Error{Errc::not_found, id_file(directory) + " has no id"};
}

Result<std::string> renew_state_id(const std::string& directory) {
  std::string id = new_id();
  if (auto written = replace_file(id_file(directory), id + "\n", 0600); !written)
    return no_journal(Errc::unavailable, written.error().text());
  return id;
}

}  // namespace gpuyard::store
