// Reads the evidence from which Membership decides.
//
// Thread: worker. Each call blocks on /proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "core/processes/group_makers.h"
#include "core/processes/marks.h"
#include "core/processes/membership.h"
#include "core/processes/proc_files.h"
#include "core/processes/process_cache.h"

namespace gpuyard::processes {

class EvidenceReader {
 public:
  using OwnerLookup = std::function<std::uint32_t(std::uint32_t uid)>;
  // `proc_root`: the /proc with the driver's numbers. `own_root`: the /proc of this PID namespace.
  // `quota_owner`: see Evidence. `marks`: reads environments; null: this process does.
  explicit EvidenceReader(std::string proc_root, std::string own_root = std::string(kProcRoot),
                          OwnerLookup quota_owner = {},
                          MakerLookup = GroupMakers::of_this_machine(),
                          const std::shared_ptr<MarkClient>& marks = nullptr);

  // `gpu_users`: the processes that the driver lists, and when the newest list with each was made.
  Evidence read(const std::vector<LeaseProcesses>&, const ProcessCache::ListTimes& gpu_users,
                PidOrigin, TimePoint now);

 private:
  void read_table(const std::vector<LeaseProcesses>&, TimePoint now, Evidence&);
  Result<GpuUser> read_user(const std::string& proc_root, PidSpace, std::uint32_t pid);
  void read_marks_of_users(const std::vector<LeaseProcesses>&, TimePoint now, Evidence&);

  std::string proc_root_;
  std::string own_root_;
  OwnerLookup quota_owner_;
  MakerLookup maker_of_;
  std::shared_ptr<MarkClient> mark_client_;
  EnvironmentScanner table_scanner_;
  EnvironmentScanner gpu_user_scanner_;
};

}  // namespace gpuyard::processes
