#include "daemon/user_directory.h"

#include <algorithm>
#include <utility>

namespace gpuyard::daemon {

UserDirectory::UserDirectory(Loop& loop, Worker& worker, processes::UserNames::LookUp look_up)
    : loop_(loop), worker_(worker), look_up_(std::move(look_up)) {}

// An outdated name is still returned, while it is looked up again.
std::optional<std::string> UserDirectory::name_of(std::uint32_t uid) {
  const auto found = known_.find(uid);
  if (found == known_.end() || found->second.until <= loop_.now()) refresh({uid});
  return found == known_.end() ? std::nullopt : found->second.name;
}

bool UserDirectory::is_gone(std::uint32_t uid) {
  name_of(uid);  // looks it up
  const auto found = known_.find(uid);
  return found != known_.end() && found->second.gone;
}

void UserDirectory::follow(const std::function<std::vector<std::uint32_t>()>& users) {
  follow_ = loop_.call_after(kFollowed, [this, users] {
    refresh(users());
    follow(users);
  });
}

bool UserDirectory::is_fresh(std::uint32_t uid) const {
  const auto found = known_.find(uid);
  return found != known_.end() && loop_.now() < found->second.until;
}

void UserDirectory::refresh(const std::vector<std::uint32_t>& uids) {
  for (const std::uint32_t uid : uids) {
    if (!is_fresh(uid)) want(uid, false);
  }
  look_up_next();
}

void UserDirectory::learn(const std::vector<std::uint32_t>& uids, std::function<void()> done) {
  const std::uint64_t who = next_waiting_++;
  Waiting& waiting = waiting_[who];
  waiting.done = std::move(done);
  for (const std::uint32_t uid : uids) {
    if (!is_fresh(uid) && want(uid, true)) waiting.unknown.insert(uid);
  }
  waiting.patience = loop_.call_after(kPatience, [this, who] { tell(who); });
  if (waiting.unknown.empty() || !look_up_next()) {
    loop_.post(here_.guard([this, who] { tell(who); }));
  }
}

// Queues each uid once, however long its look-up takes. Returns false if the queue is full.
// `urgent`: a response waits for the name.
bool UserDirectory::want(std::uint32_t uid, bool urgent) {
  if (asked_.contains(uid)) {
    if (urgent && std::erase(line_, uid) > 0) line_.push_front(uid);
    return true;
  }
  if (asked_.size() >= kMost) return false;
  asked_.insert(uid);
  if (urgent) {
    line_.push_front(uid);
  } else {
    line_.push_back(uid);
  }
  return true;
}

// Returns false if the worker's queue is full; no look-up runs then.
bool UserDirectory::look_up_next() {
  if (looking_ || line_.empty()) return true;
  const std::uint32_t uid = line_.front();
  line_.pop_front();
  looking_ = ask_worker(
      worker_, [look_up = look_up_, uid] { return look_up(uid); },
      here_.guard([this, uid](const Result<std::string>& name) {
        looking_ = false;
        take(uid, name);
        look_up_next();
      }));
  if (looking_) return true;
  line_.clear();
  asked_.clear();
  return false;
}

void UserDirectory::take(std::uint32_t uid, const Result<std::string>& name) {
  asked_.erase(uid);
  while (known_.size() >= kMost && !known_.contains(uid)) {
    known_.erase(
        std::ranges::min_element(known_, {}, [](const auto& one) { return one.second.until; }));
  }
  Known& known = known_[uid];
  const bool failed = !name && name.error().code != Errc::not_found;
  known.until = loop_.now() + (failed ? kFailureKept : kKept);
  if (!failed) {  // otherwise the earlier result stays valid
    known.name = name ? std::optional(*name) : std::nullopt;
    known.gone = !name;
  }
  std::vector<std::uint64_t> served;
  for (auto& [who, waiting] : waiting_) {
    if (waiting.unknown.erase(uid) > 0 && waiting.unknown.empty()) served.push_back(who);
  }
  for (const std::uint64_t who : served) tell(who);
}

void UserDirectory::tell(std::uint64_t who) {
  if (auto waiting = waiting_.extract(who)) waiting.mapped().done();
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
