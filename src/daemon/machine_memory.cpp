#include "daemon/machine_memory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::daemon {
namespace {

bool differs_only_in_time(const KnownBoard& one, const KnownBoard& other) {
  const auto lasting = [](const KnownBoard& board) {
    return std::tie(board.uuid, board.index, board.pci_address, board.name, board.listed,
                    board.first_seen, board.boot_id, board.errors);
  };
  return lasting(one) == lasting(other);
}

bool is_in(const std::vector<KnownBoard>& boards, const std::string& uuid) {
  return std::ranges::find(boards, uuid, &KnownBoard::uuid) != boards.end();
}

bool is_seen_time_outdated(const KnownBoard& stored, const KnownBoard& now) {
  const Duration age = now.last_seen - stored.last_seen;
  return age >= MachineMemory::kSeenSaveInterval || age < -MachineMemory::kSeenSaveInterval;
}

events::Event missing_event(const DeviceInfo& info, const std::string& why, const Snapshot& at) {
  events::Event event;
  event.at = at.taken;
  event.wall = at.wall;
  event.device = info.id;
  event.index = own_index(info);
  event.kind = "gpu_missing";
  event.severity = EventSeverity::stop;
  event.text =
      fmt::format("GPU {} is missing: {}",
                  spoken_name(info.id, info.former_index, own_index(info).has_value()), why);
  return event;
}

}  // namespace

MachineMemory::MachineMemory(Loop& loop, store::StateStore& state, telemetry::Telemetry& telemetry,
                             std::string boot)
    : loop_(loop), telemetry_(telemetry), db_(state), boot_(std::move(boot)) {}

void MachineMemory::recall(const std::string& machine, std::function<void()> on_ready) {
  // A simulated world that takes the place of another one is known from now on.
  if (recalled_ && machine != std::exchange(machine_, machine)) stored_.clear();
  if (recalled_ || machine.empty()) {
    recalled_ = true;
    return on_ready();
  }
  const bool first = machine_.empty();
  machine_ = machine;
  on_ready_ = std::move(on_ready);
  if (!first) return;
  recall_timer_ = loop_.call_after(kRecallTimeout, [this] {
    log::warning("the disk is not responding: missing GPUs are not known yet");
    finish_recall();
  });
  load();
}

void MachineMemory::load() {
  const bool submitted =
      db_.load(machine_, lifetime_.guard([this](Result<std::vector<KnownBoard>> boards) {
        on_loaded(std::move(boards));
      }));
  if (!submitted) load_timer_ = loop_.call_after(kRetryDelay, [this] { load(); });
}

void MachineMemory::on_loaded(Result<std::vector<KnownBoard>> boards) {
  if (!boards) {
    log::error("the records of this machine's GPUs cannot be read: {}", boards.error().text());
    load_timer_ = loop_.call_after(kRetryDelay, [this] { load(); });
    return finish_recall();
  }
  loaded_ = true;
  reports_missing_ = true;
  for (const KnownBoard& board : *boards) stored_.emplace(board.uuid, board);
  telemetry_.restore(*boards, boot_);
  finish_recall();
}

void MachineMemory::finish_recall() {
  recall_timer_.reset();
  recalled_ = true;
  if (const auto on_ready = std::exchange(on_ready_, nullptr)) on_ready();
}

store::MachineTransaction MachineMemory::unsaved_changes(bool with_times) const {
  store::MachineTransaction changes{machine_};
  if (machine_.starts_with(kSimulatedMachine)) changes.replaces = kSimulatedMachine;
  std::vector<KnownBoard> known = telemetry_.known_boards();
  for (const auto& [uuid, board] : stored_) {
    if (!is_in(known, uuid)) changes.taken_out.push_back(uuid);
  }
  for (KnownBoard& board : known) {
    const auto stored = stored_.find(board.uuid);
    board.boot_id = boot_;
    if (stored != stored_.end()) {
      const KnownBoard& before = stored->second;
      board.first_seen = before.first_seen;
      const bool same = differs_only_in_time(board, before);
      if (same && !with_times && !is_seen_time_outdated(before, board)) continue;
    }
    changes.boards.push_back(std::move(board));
  }
  return changes;
}

std::vector<events::Event> MachineMemory::on_snapshot(const Snapshot& snapshot) {
  std::vector<events::Event> missing;
  if (!snapshot.driver.initialised || machine_.empty() || !loaded_) return missing;
  if (std::exchange(reports_missing_, false)) {
    for (const DeviceState& device : snapshot.devices) {
      if (!is_missing(device.info)) continue;
      missing.push_back(missing_event(device.info, device.why, snapshot));
      log::warning("{}", missing.back().text);
    }
  }
  if (saving_ || loop_.now() < next_save_at_) return missing;
  const auto changed = unsaved_changes(false);
  if (changed.boards.empty() && changed.taken_out.empty()) return missing;
  const bool only_times =
      changed.taken_out.empty() && std::ranges::all_of(changed.boards, [&](const auto& board) {
        const auto stored = stored_.find(board.uuid);
        return stored != stored_.end() && differs_only_in_time(board, stored->second);
      });
  save(changed, only_times);
  return missing;
}

void MachineMemory::flush() {
  if (!loaded_ || machine_.empty() || !telemetry_.latest()->driver.initialised) return;
  const auto all = unsaved_changes(true);
  if (!all.boards.empty() || !all.taken_out.empty()) save(all, false);
}

// Later readings are compared with `stored_`. A failed save is repeated at a reading after
// kRetryDelay.
void MachineMemory::save(const store::MachineTransaction& changed, bool only_times) {
  const auto durability = only_times ? store::Durability::normal : store::Durability::full;
  saving_ = true;
  const auto failed = [this] {
    saving_ = false;
    next_save_at_ = loop_.now() + kRetryDelay;
  };
  const bool taken = db_.save(changed, durability,
                              lifetime_.guard([this, changed, failed](const Result<void>& saved) {
                                if (!saved) return failed();
                                saving_ = false;
                                if (changed.machine != machine_) return;
                                for (const KnownBoard& board : changed.boards)
                                  stored_[board.uuid] = board;
                                for (const std::string& uuid : changed.taken_out)
                                  stored_.erase(uuid);
                              }));
  if (!taken) failed();
}

}  // namespace gpuyard::daemon
