#include "daemon/user_directory.h"

#include <algorithm>
#include <utility>

namespace gpuyard::daemon {

UserDirectory::UserDirectory(Loop& loop, Worker& worker, processes::UserNames::LookUp look_up)
    : loop_(loop),
      worker_(worker),
      names_(std::make_shared<processes::UserNames>(std::move(look_up))) {}

// An outdated name is still returned, while it is looked up again.
std::optional<std::string> UserDirectory::name_of(std::uint32_t uid) {
  const auto found = known_.find(uid);
  const bool old = found == known_.end() || found->second.until <= loop_.now();
  if (old && asked_.insert(uid).second && !look_up({uid}, [] {})) asked_.erase(uid);
  return found == known_.end() ? std::nullopt : found->second.name;
}

void UserDirectory::learn(const std::vector<std::uint32_t>& uids, std::function<void()> done) {
  std::vector<std::uint32_t> unknown;
  for (const std::uint32_t uid : uids) {
    const auto found = known_.find(uid);
    if (found == known_.end() || found->second.until <= loop_.now()) unknown.push_back(uid);
  }
  struct Waiting {
    std::function<void()> done;
    Subscription patience;

    void tell() {
      patience.reset();
      if (const auto once = std::exchange(done, nullptr)) once();
    }
  };
  const auto waiting = std::make_shared<Waiting>(Waiting{std::move(done), {}});
  waiting->patience = loop_.call_after(kPatience, [waiting] { waiting->tell(); });
  const auto tell = [waiting] { waiting->tell(); };
  if (unknown.empty() || !look_up(std::move(unknown), tell)) loop_.post(tell);
}

bool UserDirectory::look_up(std::vector<std::uint32_t> uids, std::function<void()> done) {
  if (uids.size() > kMost) uids.resize(kMost);
  return ask_worker(
      worker_,
      [names = names_, uids = std::move(uids)] {
        Names found;
        for (const std::uint32_t uid : uids) {
          auto name = names->of(uid, BootClock::now());
          found.emplace(uid, name ? std::optional(*std::move(name)) : std::nullopt);
        }
        return found;
      },
      here_.guard([this, done = std::move(done)](const Names& found) {
        take(found);
        done();
      }));
}

void UserDirectory::take(const Names& found) {
  for (const auto& [uid, name] : found) {
    asked_.erase(uid);
    while (known_.size() >= kMost && !known_.contains(uid)) {
      known_.erase(
          std::ranges::min_element(known_, {}, [](const auto& one) { return one.second.until; }));
    }
    known_[uid] = {name, loop_.now() + kKept};
  }
}

void GroupDirectory::ask(std::uint32_t uid, Told told) {
  const auto found = known_.find(uid);
  if (found != known_.end() && loop_.now() < found->second.until) return told(found->second.member);
  auto& waiting = asked_[uid];
  waiting.push_back(std::move(told));
  if (waiting.size() > 1) return;
  patience_[uid] = loop_.call_after(kPatience, [this, uid] { answer(uid, false); });
  const bool taken = ask_worker(
      worker_, [look_up = look_up_, uid] { return look_up(uid); },
      here_.guard([this, uid](const Result<bool>& member) {
        const bool is_member = member && *member;
        if (known_.size() >= kMost) known_.clear();
        known_[uid] = {is_member, loop_.now() + kKept};
        answer(uid, is_member);
      }));
  if (!taken) loop_.post(here_.guard([this, uid] { answer(uid, false); }));
}

void GroupDirectory::answer(std::uint32_t uid, bool member) {
  patience_.erase(uid);
  const auto found = asked_.find(uid);
  if (found == asked_.end()) return;
  const auto waiting = std::move(found->second);
  asked_.erase(found);
  for (const Told& told : waiting) told(member);
}

}  // namespace gpuyard::daemon
