#include "processes/stays.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace gpuyard::processes {
namespace {

using Name = std::tuple<DeviceId, std::string, std::uint32_t, std::int64_t>;

Name name_of(const Stay& stay) {
  return {stay.gpu, stay.boot_id, stay.pid, stay.started_boot_ms};
}

// What only /proc tells. A user's name may come later than the rest.
void learn(Stay& stay, const ProcessFacts& facts) {
  stay.started_boot_ms = to_milliseconds(facts.started.time_since_epoch());
  stay.started = facts.started_at;
  stay.uid = facts.uid;
  stay.command = facts.command;
  if (facts.user) stay.user = *facts.user;
}

}  // namespace

void StayBook::on_snapshot(const Snapshot& snapshot, const ProcessBook& book,
                           const LeaseOf& lease_of) {
  for (const DeviceState& device : snapshot.devices) {
    const auto& list = device.sample.processes();
    if (!list || list->processes() == nullptr) continue;
    note(device, *list, snapshot, book, lease_of);
  }
  if (all_put_ == TimePoint{}) all_put_ = snapshot.taken;
  if (snapshot.taken - all_put_ >= kPutEvery) {
    all_put_ = snapshot.taken;
    for (const auto& [key, open] : open_) {
      if (open.written) queue(open.stay);
    }
  }
  put();
}

void StayBook::note(const DeviceState& device, const ProcessList& list, const Snapshot& snapshot,
                    const ProcessBook& book, const LeaseOf& lease_of) {
  const DeviceId& gpu = device.info.id;
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(snapshot.taken - list.taken);
  const WallTime wall = snapshot.wall - age;
  const bool newer = std::exchange(listed_[gpu], list.taken) != list.taken;
  std::set<std::uint32_t> there;
  for (const GpuProcess& process : *list.processes()) {
    there.insert(process.pid);
    const auto facts = book.find(process.pid);
    const bool known = open_.contains({gpu, process.pid});
    if (!known && (!newer || open_.size() >= kMostOpen)) continue;
    Open& open = open_[{gpu, process.pid}];
    const bool another =
        known && facts && open.stay.started_boot_ms != 0 &&
        open.stay.started_boot_ms != to_milliseconds((*facts)->started.time_since_epoch());
    if (another) end(open);
    if (!known || another) {
      open = {};
      open.stay = {.gpu = gpu, .pid = process.pid, .boot_id = boot_id_};
      open.stay.lease = lease_of(gpu);
      open.stay.first_seen = wall;
    }
    Stay& stay = open.stay;
    stay.last_seen = wall;
    if (process.memory_bytes) {
      stay.peak_memory_bytes = std::max(stay.peak_memory_bytes.value_or(0), *process.memory_bytes);
    }
    if (!facts) continue;
    learn(stay, **facts);
    if (!std::exchange(open.written, true)) queue(stay);
  }
  if (!newer) return;
  for (auto one = open_.lower_bound({gpu, 0}); one != open_.end();) {
    if (std::get<0>(one->first) != gpu) break;
    if (there.contains(std::get<1>(one->first))) {
      ++one;
      continue;
    }
    end(one->second);
    one = open_.erase(one);
  }
}

void StayBook::end(Open& open) {
  Stay& stay = open.stay;
  stay.over = true;
  // Nobody knows its start, and its number may be given anew.
  if (stay.started_boot_ms == 0) stay.started_boot_ms = -to_unix_ms(stay.first_seen);
  queue(stay);
}

void StayBook::queue(const Stay& stay) {
  if (waiting_.size() >= kMostWaiting) waiting_.erase(waiting_.begin());
  waiting_.push_back(stay);
}

// What cannot be written waits for the next snapshot; the archive itself tells of its disk.
void StayBook::put() {
  if (putting_ || waiting_.empty()) return;
  const auto batch = std::make_shared<const std::vector<Stay>>(std::exchange(waiting_, {}));
  const auto again = [this, batch] {
    std::vector<Stay> all = *batch;
    all.insert(all.end(), waiting_.begin(), waiting_.end());
    if (all.size() > kMostWaiting) all.erase(all.begin(), all.end() - kMostWaiting);
    waiting_ = std::move(all);
  };
  putting_ = ask_worker(
      worker_, [archive = archive_, batch] { return archive->put(*batch); },
      [this, again](const Result<void>& done) {
        putting_ = false;
        if (!done) again();
      });
  if (!putting_) again();
}

void StayBook::put_away() {
  for (const auto& [key, open] : open_) queue(open.stay);
  putting_ = false;
  put();
}

std::vector<Stay> StayBook::here() const {
  std::vector<Stay> stays;
  for (const auto& [key, open] : open_) stays.push_back(open.stay);
  return stays;
}

void StayBook::ask(StaysQuestion question, Done done) {
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = ask_worker(
      worker_,
      [question = std::move(question), archive = archive_, here = here()] {
        return answer(question, *archive, here);
      },
      [shared](Result<std::vector<Stay>> stays) { (*shared)(std::move(stays)); });
  if (!posted) (*shared)(Error{Errc::busy, "the history has too much to do now; ask again"});
}

Result<std::vector<Stay>> StayBook::answer(const StaysQuestion& question, StayArchive& archive,
                                           const std::vector<Stay>& here) {
  auto stays = archive.get(question);
  if (!stays) return stays;
  std::set<Name> now;
  for (const Stay& stay : here) now.insert(name_of(stay));
  std::erase_if(*stays, [&](const Stay& stay) { return now.contains(name_of(stay)); });
  // A daemon that was killed left some that are over since.
  for (Stay& stay : *stays) stay.over = true;
  for (const Stay& stay : here) {
    const bool wanted =
        question.gpus.empty() || std::ranges::find(question.gpus, stay.gpu) != question.gpus.end();
    if (wanted && stay.first_seen < question.until && stay.last_seen >= question.from) {
      stays->push_back(stay);
    }
  }
  std::ranges::sort(*stays, [](const Stay& a, const Stay& b) {
    return std::tie(b.first_seen, a.gpu, a.pid) < std::tie(a.first_seen, b.gpu, b.pid);
  });
  if (stays->size() > question.most + 1) stays->resize(question.most + 1);
  return stays;
}

}  // namespace gpuyard::processes
