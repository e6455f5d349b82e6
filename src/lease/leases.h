// The daemon's leases: claims of real processes, kept on disk before anybody hears of them, bound
// to who holds them, and over only when what ran under them was seen gone. Lives on the io thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "lease/archive.h"
#include "lease/core.h"
#include "lease/observer.h"

namespace gpuyard::lease {

struct Policy {
  Fairness fairness;
  bool end_overdue = false;  // a lease that is held longer than was said is ended
};

// Who calls, as the kernel says.
struct Caller {
  std::uint32_t uid = 0;
  bool admin = false;
  std::uint32_t pid = 0;                         // 0: not known
  std::shared_ptr<const UniqueFd> process = {};  // readable when it is gone
  std::string name() const { return "uid " + std::to_string(uid); }
};

struct Release {
  std::optional<Fence> fence = {};
  bool force = false;  // for admins
  std::string reason = {};
  int signal = 0;  // to what still runs
};

// A GPU as leasing sees it.
struct PoolGpu {
  DeviceInfo info;
  std::optional<unsigned> clique = {};  // all linked with each other
  std::optional<unsigned> numa_node = {};
  // Why it may not be handed out: "lost", "mig_enabled", ...; "" if it may.
  std::string withheld = {};
  std::string text = {};  // the same as a sentence
  std::optional<std::int64_t> total_bytes = {};
  std::optional<std::int64_t> free_bytes = {};
  std::optional<std::int64_t> temperature_c = {};
};

class Leases {
 public:
  using Answer = std::function<void(Result<Lease>)>;

  // Whoever waits and is not there for so long is asked no more.
  static constexpr Duration kReconnect = std::chrono::seconds(30);
  // So long may the stream of a held lease be away while its process lives.
  static constexpr Duration kGrace = std::chrono::seconds(5);
  // How often it is looked whether what drains is gone.
  static constexpr Duration kDrainLook = std::chrono::milliseconds(250);
  static constexpr std::size_t kMostWaiting = 20'000;
  static constexpr std::size_t kMostWaitingOfOwner = 10'000;

  // These outlive it.
  Leases(Loop&, Observer&, Archive&, Policy, std::string boot_id);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Reads what was kept; nothing is granted before those leases were looked at.
  void start();
  // Grants nothing more. What is held stays held: the next daemon finds it again.
  void stop();

  // All GPUs that there are, at each reading.
  void on_gpus(const std::vector<PoolGpu>&);
  // There are new lists of processes.
  void on_processes();

  // Each answers once what it says is on the disk, never inside the call. Errors: invalid,
  // not_found, denied, conflict (another body under that id, a stale fence), busy (the queue is
  // full), unavailable (the journal is not there).
  // Answers waiting, held or ended. "" for id: a new one.
  void claim(const Caller&, std::string id, const Wish&, Answer);
  void release(const Caller&, const std::string& id, const Release&, Answer);
  void renew(const Caller&, const std::string& id, Duration ttl, std::optional<Fence>, Answer);
  void add_member(const Caller&, const std::string& id, std::uint32_t pid, std::optional<Fence>,
                  Answer);
  void adopt(const Caller&, std::uint32_t pid, std::string note, Answer);
  using Done = std::function<void(const Result<void>&)>;
  void cordon(const Caller&, const std::vector<DeviceId>&, const std::string& reason, Done);
  void uncordon(const Caller&, const std::vector<DeviceId>&, Done);

  // Somebody is there for a claim, as long as this lives. `stream`: a connection that is meant to
  // stay, so that its end is the holder's.
  enum class Attendance : std::uint8_t { poll, stream };
  Subscription attend(const std::string& id, Attendance);
  // Told of each change of one lease once it is on the disk, never inside a call of this class.
  Subscription watch(const std::string& id, std::function<void(const Lease&)>);
  // One listener, told of every change of any lease once it is on the disk: of its former state.
  void on_change(std::function<void(const Lease& now, State before)> told) {
    told_ = std::move(told);
  }

  // As they are on the disk.
  const std::map<std::string, Lease>& leases() const;  // that are not forgotten yet
  const Lease* find(std::string_view id) const;
  // Whether the lease is held with this fence and has the GPU.
  Result<void> may_use(std::string_view id, std::optional<Fence>, const DeviceId&) const;
  std::vector<Outlook> outlooks(std::size_t most) const;
  const std::map<DeviceId, PoolGpu>& gpus() const;
  const std::map<DeviceId, Cordon>& cordons() const;
  // Processes on GPUs outside any lease, known or not; by GPU.
  const std::map<DeviceId, std::vector<Seen>>& outside() const;
  // Why a GPU is not handed out to anybody now, as a word and a sentence; nothing if it is.
  std::optional<std::pair<std::string, std::string>> withheld(const DeviceId&) const;
  std::size_t pending_claimers() const;
  bool leased(const DeviceId&) const;
  // Why nothing is granted now, if that is so.
  std::optional<Error> closed() const;
  std::vector<std::string> notes() const;
};

}  // namespace gpuyard::lease
