#include "core/energy/ledger.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/proc_stat.h"
#include "base/try.h"

namespace gpuyard::energy {
namespace {

bool is_plain(std::string_view name) {
  return std::ranges::none_of(name, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' || byte == 0x7f;
  });
}

Error unknown_window_error(std::string_view id) {
  return {Errc::not_found,
          fmt::format("no open energy window \"{}\"; it was ended, or its time ran out", id)};
}

// Returns how far a moment of another boot has to be shifted onto this boot's clock.
Duration boot_clock_shift(TimePoint saved_at, WallTime saved_wall, TimePoint now,
                          WallTime now_wall) {
  const Duration ago = std::max<Duration>(now_wall - saved_wall, Duration::zero());
  return now - ago - saved_at;
}

}  // namespace

std::size_t Ledger::entry_index_of(std::string_view uuid, bool simulated) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.account.state().session.simulated == simulated && entry.uuid == uuid;
  });
  return found != entries_.end() ? static_cast<std::size_t>(found - entries_.begin()) : kNoEntry;
}

void Ledger::record(const Snapshot& snapshot) {
  if (!snapshot.driver.initialised) return;
  const gpuyard::DriverInfo& driver = snapshot.driver.info;
  const Session session{boot_id_, driver.driver_version.value_or(""), driver.simulated,
                        max_step(snapshot)};
  for (const DeviceState& device : snapshot.devices) record(device, session, snapshot.wall);
  if (!windows_.empty()) update_peaks();
}

void Ledger::record(const DeviceState& device, const Session& session, WallTime wall) {
  auto reading = device.info.uuid.empty() ? std::nullopt : energy_reading_of(device.sample);
  if (!reading) return;
  reading->contradicted = !device.contradiction.empty();
  std::size_t entry_index = entry_index_of(device.info.uuid, session.simulated);
  if (entry_index != kNoEntry) {
    entries_[entry_index].account.record(*reading, session, wall);
  } else if (entries_.size() < kMaxAccounts) {
    std::optional<FirstReading> first;
    if (!restored_) first = FirstReading{*reading, session, wall};
    entry_index = entries_.size();
    entries_.push_back({device.info.uuid, Account(*reading, session, wall), std::move(first)});
    join_windows(entry_index);
  } else {
    return;
  }
  Entry& entry = entries_[entry_index];
  entry.power_mw = reading->contradicted ? std::nullopt : reading->power_mw;
  entry.power_taken_at = reading->taken;
  const AccountState& state = entry.account.state();
  if (!entry.initial_amounts && state.last_reading_at == reading->taken)
    entry.initial_amounts = state.amounts;
}

// Gives windows that began before its first reading what is known of a GPU from now on. The time
// until then stays unknown.
void Ledger::join_windows(std::size_t entry_index) {
  const Entry& entry = entries_[entry_index];
  const AccountMark now = entry.account.mark();
  for (auto& [id, open] : windows_) {
    if (open.window.simulated != entry.account.state().session.simulated) continue;
    for (std::size_t i = 0; i < open.entries.size(); ++i) {
      WindowGpu& gpu = open.window.gpus[i];
      if (open.entries[i] != kNoEntry || gpu.uuid != entry.uuid) continue;
      open.entries[i] = entry_index;
      const TimePoint began = std::min(gpu.begin.taken, now.taken);
      gpu.begin = now;
      gpu.begin.taken = began;
      gpu.begin.unknown -= now.taken - began;
      open.changed = true;
    }
  }
}

void Ledger::update_peaks() {
  for (auto& [id, open] : windows_) {
    for (std::size_t i = 0; i < open.entries.size(); ++i) {
      if (open.entries[i] == kNoEntry) continue;
      const Entry& entry = entries_[open.entries[i]];
      WindowGpu& gpu = open.window.gpus[i];
      if (!entry.power_mw || entry.power_taken_at < gpu.begin.taken) continue;
      if (gpu.peak_mw && *gpu.peak_mw >= *entry.power_mw) continue;
      gpu.peak_mw = entry.power_mw;
      open.changed = true;
    }
  }
}

Result<void> Ledger::check_request(const WindowRequest& request) const {
  if (request.max_duration < kMinWindowDuration || request.max_duration > kMaxWindowDuration) {
    return Error{
        Errc::invalid,
        fmt::format(
            "/most_seconds: expected 1 to 2592000 (30 days); got {}",
            std::chrono::duration_cast<std::chrono::seconds>(request.max_duration).count())};
  }
  if (request.name.size() > kMaxNameLength || !is_plain(request.name)) {
    return Error{
        Errc::invalid,
        fmt::format("/name: expected at most {} bytes, without control characters; got {} bytes",
                    kMaxNameLength, request.name.size())};
  }
  const auto of_owner = std::ranges::count_if(
      windows_, [&](const auto& one) { return one.second.window.owner == request.owner; });
  const bool too_many =
      !request.privileged && static_cast<std::size_t>(of_owner) >= kMaxWindowsPerOwner;
  const std::size_t max_windows = kMaxWindows + (request.privileged ? kReservedForAdmins : 0);
  if (!too_many && windows_.size() < max_windows) return {};
  return Error{Errc::busy,
               fmt::format("{} windows are open{}; end some with DELETE "
                           "/api/gpu/energy/windows/ID (GET /api/gpu/energy/windows lists them)",
                           too_many ? static_cast<std::size_t>(of_owner) : windows_.size(),
                           too_many ? fmt::format(" of uid {}", request.owner) : "")};
}

Result<std::vector<const DeviceState*>> Ledger::gpus_of(const WindowRequest& request,
                                                        const Snapshot& edge) const {
  if (!edge.driver.initialised) {
    return Error{Errc::unavailable, fmt::format("no driver: {}", edge.driver.why)};
  }
  std::vector<const DeviceState*> gpus;
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    const std::string at = fmt::format("/gpus/{}", i);
    const auto device = find_device(edge, request.gpus[i]);
    if (!device) return Error(device.error()).in(at);
    if (std::ranges::find(gpus, *device) != gpus.end()) {
      return Error{Errc::invalid, fmt::format("{}: names a GPU twice", at)};
    }
    gpus.push_back(*device);
  }
  if (!gpus.empty()) return gpus;
  for (const DeviceState& device : edge.devices) {
    if (device.info.uuid.empty()) continue;
    const bool has_account =
        entry_index_of(device.info.uuid, edge.driver.info.simulated) != kNoEntry;
    if (has_account || !is_lost(device)) gpus.push_back(&device);
  }
  if (!gpus.empty()) return gpus;
  return Error{Errc::unavailable, "the driver reports no GPU"};
}

Result<std::string> Ledger::begin(const WindowRequest& request, const Snapshot& edge) {
  record(edge);
  GPUYARD_TRY(check_request(request));
  const auto gpus = GPUYARD_TRY(gpus_of(request, edge));
  Window window{
      new_id(),   request.name, request.owner,        boot_id_, edge.driver.info.simulated,
      edge.taken, edge.wall,    request.max_duration, {}};
  std::vector<std::size_t> entry_indexes;
  for (const DeviceState* const gpu : gpus) {
    const std::size_t entry_index = entry_index_of(gpu->info.uuid, window.simulated);
    const bool has_entry = entry_index != kNoEntry;
    entry_indexes.push_back(entry_index);
    AccountMark begin;
    begin.taken = edge.taken;
    window.gpus.push_back(
        {gpu->info.uuid, has_entry ? entries_[entry_index].account.mark() : begin, {}});
  }
  std::string id = window.id;
  windows_.insert_or_assign(id, OpenWindow{std::move(window), std::move(entry_indexes)});
  update_peaks();
  return id;
}

Result<const Window*> Ledger::find(std::string_view id) const {
  const auto found = windows_.find(id);
  if (found == windows_.end()) return unknown_window_error(id);
  return &found->second.window;
}

WindowResult Ledger::result_of_open(const OpenWindow& open, TimePoint now) const {
  WindowResult result{open.window, now - open.window.began_at, {}};
  for (std::size_t i = 0; i < open.entries.size(); ++i) {
    const WindowGpu& gpu = open.window.gpus[i];
    const std::size_t entry_index = open.entries[i];
    const AccountMark end =
        entry_index != kNoEntry ? entries_[entry_index].account.mark() : gpu.begin;
    result.gpus.push_back(result_of(gpu, end, now));
    if (entry_index == kNoEntry) result.gpus.back().known = false;
  }
  return result;
}

Result<WindowResult> Ledger::result(std::string_view id, TimePoint now) const {
  const auto found = windows_.find(id);
  if (found == windows_.end()) return unknown_window_error(id);
  return result_of_open(found->second, now);
}

std::vector<WindowResult> Ledger::results(TimePoint now) const {
  std::vector<WindowResult> all;
  for (const auto& [id, open] : windows_) all.push_back(result_of_open(open, now));
  return all;
}

Result<WindowResult> Ledger::end(std::string_view id, TimePoint now) {
  const auto found = windows_.find(id);
  if (found == windows_.end()) return unknown_window_error(id);
  WindowResult result = result_of_open(found->second, now);
  ended_windows_.push_back(found->first);
  windows_.erase(found);
  return result;
}

std::vector<WindowResult> Ledger::end_overdue(TimePoint now) {
  std::vector<std::string> overdue;
  for (const auto& [id, open] : windows_) {
    if (open.window.ends_at() <= now) overdue.push_back(id);
  }
  std::vector<WindowResult> results;
  for (const std::string& id : overdue) results.push_back(*end(id, now));
  return results;
}

std::vector<SavedAccount> Ledger::accounts() const {
  std::vector<SavedAccount> all;
  for (const Entry& entry : entries_) all.push_back({entry.uuid, entry.account.state()});
  std::ranges::sort(all, {}, [](const SavedAccount& account) {
    return std::pair(std::string_view(account.uuid), account.state.session.simulated);
  });
  return all;
}

std::optional<EnergyTotal> Ledger::booked_energy(std::string_view uuid, bool simulated) const {
  const std::size_t entry_index = entry_index_of(uuid, simulated);
  if (entry_index == kNoEntry || !entries_[entry_index].initial_amounts) return std::nullopt;
  const Amounts& before = *entries_[entry_index].initial_amounts;
  const AccountState& state = entries_[entry_index].account.state();
  return EnergyTotal{state.last_reading_at, state.amounts.unattributed_mj - before.unattributed_mj,
                     state.amounts.estimated_mj - before.estimated_mj,
                     state.amounts.unknown - before.unknown};
}

void Ledger::restore(LedgerState saved, TimePoint now, WallTime wall) {
  for (SavedAccount& account : saved.accounts) {
    AccountState& state = account.state;
    if (state.session.boot_id != boot_id_) {
      state.last_reading_at +=
          boot_clock_shift(state.last_reading_at, state.last_reading_wall, now, wall);
    }
    restore(std::move(account));
  }
  for (Window& window : saved.windows) {
    if (window.boot_id != boot_id_) {
      const Duration shift = boot_clock_shift(window.began_at, window.began_wall, now, wall);
      window.boot_id = boot_id_;
      window.began_at += shift;
      for (WindowGpu& gpu : window.gpus) gpu.begin.taken += shift;
    }
    OpenWindow open;
    for (const WindowGpu& gpu : window.gpus) {
      open.entries.push_back(entry_index_of(gpu.uuid, window.simulated));
    }
    open.window = std::move(window);
    windows_.insert_or_assign(open.window.id, std::move(open));
  }
  for (Entry& entry : entries_) entry.first.reset();
  restored_ = true;
}

void Ledger::restore(SavedAccount saved) {
  const std::size_t entry_index = entry_index_of(saved.uuid, saved.state.session.simulated);
  if (entry_index == kNoEntry) {
    entries_.push_back({std::move(saved.uuid), Account(std::move(saved.state)), std::nullopt});
    return;
  }
  Entry& entry = entries_[entry_index];
  Account earlier(std::move(saved.state));
  if (entry.first) {
    earlier.record(entry.first->reading, entry.first->session, entry.first->wall);
  }
  entry.account.prepend(earlier.state());
  // All that the account has already was counted in this run.
  entry.initial_amounts = earlier.state().amounts;
  shift_marks(entry_index, earlier.state());
}

// Adds the earlier amounts to windows that began before the saved accounts were restored.
void Ledger::shift_marks(std::size_t entry_index, const AccountState& earlier) {
  for (auto& [id, open] : windows_) {
    for (std::size_t i = 0; i < open.entries.size(); ++i) {
      if (open.entries[i] != entry_index) continue;
      AccountMark& mark = open.window.gpus[i].begin;
      mark.device_mj += earlier.amounts.device_mj();
      mark.estimated_mj += earlier.amounts.estimated_mj;
      mark.unknown += earlier.amounts.unknown;
      mark.epoch += earlier.epoch - 1;
    }
  }
}

EnergyTransaction Ledger::take_transaction() {
  EnergyTransaction changes;
  changes.everything = std::exchange(all_changed_, false);
  changes.state.accounts = accounts();
  for (auto& [id, open] : windows_) {
    if (std::exchange(open.changed, false) || changes.everything) {
      changes.state.windows.push_back(open.window);
    }
  }
  changes.ended_windows = std::exchange(ended_windows_, {});
  return changes;
}

std::int64_t WindowResult::energy_mj() const {
  std::int64_t all = 0;
  for (const GpuResult& gpu : gpus) all += gpu.known ? gpu.energy_mj : 0;
  return all;
}

bool GpuResult::is_partial() const {
  return !known || unknown >= kMinNoticeableGap || age >= kMinNoticeableGap || epochs_crossed > 0;
}

bool WindowResult::is_known() const {
  return std::ranges::any_of(gpus, &GpuResult::known);
}

bool WindowResult::is_partial() const {
  return std::ranges::any_of(gpus, &GpuResult::is_partial);
}

std::optional<double> mean_watts(const GpuResult& result) {
  const Duration known = result.length - result.unknown;
  if (known < kMinMeanDuration) return std::nullopt;
  return joules_of(result.energy_mj) / to_seconds(known);
}

std::optional<double> peak_watts(const GpuResult& result) {
  if (!result.peak_mw) return std::nullopt;
  return static_cast<double>(*result.peak_mw) / 1000.0;
}

GpuResult result_of(const WindowGpu& gpu, const AccountMark& end, TimePoint now) {
  GpuResult result{gpu.uuid,
                   end.device_mj - gpu.begin.device_mj,
                   end.taken - gpu.begin.taken,
                   end.unknown - gpu.begin.unknown,
                   end.estimated_mj != gpu.begin.estimated_mj,
                   end.epoch - gpu.begin.epoch,
                   gpu.peak_mw,
                   now - end.taken};
  // Without a second reading there is no growth, and 0 would be invented; a window that has only
  // just begun has used nothing that could be measured.
  result.known = result.energy_mj != 0 || result.length > result.unknown ||
                 now - gpu.begin.taken < kMinNoticeableGap;
  return result;
}

}  // namespace gpuyard::energy
