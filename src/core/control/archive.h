// What must be known again after the daemon was killed, and who keeps it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shares.h"
#include "control/audit.h"
#include "control/holding.h"

namespace gpuyard::control {

// All of it is kept, or nothing.
struct Entry {
  std::optional<Holding> put;      // in the place of an earlier one of that GPU and kind
  std::optional<Holding> removed;  // by its GPU and kind
  std::optional<AuditEntry> audit;
};

// When it is kept. Both outlive the end of this program once they are told; a power cut spares what
// is older than Archive::kSoon.
enum class When : std::uint8_t {
  now,
  soon,  // with others, within kSoon
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first.
// False, and nothing happens: too much waits already. A callback never runs inside the call it was
// given to.
class Archive {
 public:
  using Kept = std::function<void(const Result<void>&)>;

  virtual ~Archive() = default;
  virtual bool load(std::function<void(Result<std::vector<Holding>>)> loaded) = 0;
  // Tells when it is kept, or why not: then it is as before. What is kept now of a holding
  // takes the place of what was to be kept soon of it, which is told with it.
  virtual bool save(Entry, When, Kept) = 0;
  virtual bool audit(AuditQuestion,
                     std::function<void(Result<std::vector<AuditEntry>>)> answered) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  static constexpr Duration kSoon = std::chrono::milliseconds(100);
  // So many entries of the audit are kept, each source for itself: whoever may do little pushes
  // out nothing of those who may do more.
  static constexpr std::int64_t kAuditKept = shares::kAuditLines;
  static constexpr std::int64_t kLeaseChangesKept = shares::kLeaseLines;
  static constexpr std::int64_t kRefusalsKept = shares::kRefusalLines;
  // Those of administrators, however many there are, for so long; a clock that is wrong takes none
  // of the newest kAuditKept away.
  static constexpr std::chrono::days kAdministratorsKept = shares::kAdministratorsLines;
  static constexpr std::int64_t kMostOfAdministrators = 10 * kAuditKept;
};

}  // namespace gpuyard::control
