#include "daemon/user_directory.h"

#include <algorithm>
#include <utility>

namespace gpuyard::daemon {

UserDirectory::UserDirectory(Loop& loop, Worker& worker, processes::UserNames::NameLookup look_up)
    : loop_(loop), worker_(worker), look_up_(std::move(look_up)) {}

// An outdated name is still returned, while it is looked up again.
std::optional<std::string> UserDirectory::name_of(std::uint32_t uid) {
  const auto found = cache_.find(uid);
  if (found == cache_.end() || found->second.expires_at <= loop_.now()) refresh({uid});
  return found == cache_.end() ? std::nullopt : found->second.name;
}

bool UserDirectory::is_gone(std::uint32_t uid) {
  name_of(uid);  // looks it up
  const auto found = cache_.find(uid);
  return found != cache_.end() && found->second.gone;
}

void UserDirectory::refresh_regularly(const std::function<std::vector<std::uint32_t>()>& users) {
  refresh_timer_ = loop_.call_after(kRefreshInterval, [this, users] {
    refresh(users());
    refresh_regularly(users);
  });
}

bool UserDirectory::is_fresh(std::uint32_t uid) const {
  const auto found = cache_.find(uid);
  return found != cache_.end() && loop_.now() < found->second.expires_at;
}

void UserDirectory::refresh(const std::vector<std::uint32_t>& uids) {
  for (const std::uint32_t uid : uids) {
    if (!is_fresh(uid)) enqueue(uid, false);
  }
  start_next();
}

void UserDirectory::resolve(const std::vector<std::uint32_t>& uids, std::function<void()> on_done) {
  const std::uint64_t id = next_waiting_++;
  PendingResolve& waiting = waiting_[id];
  waiting.on_done = std::move(on_done);
  for (const std::uint32_t uid : uids) {
    if (!is_fresh(uid) && enqueue(uid, true)) waiting.unknown.insert(uid);
  }
  waiting.timeout_timer = loop_.call_after(kResolveTimeout, [this, id] { finish_resolve(id); });
  if (waiting.unknown.empty() || !start_next()) {
    loop_.post(lifetime_.guard([this, id] { finish_resolve(id); }));
  }
}

// Queues each uid once, however long its look-up takes. Returns false if the queue is full.
// `urgent`: a response waits for the name.
bool UserDirectory::enqueue(std::uint32_t uid, bool urgent) {
  if (requested_.contains(uid)) {
    if (urgent && std::erase(queue_, uid) > 0) queue_.push_front(uid);
    return true;
  }
  if (requested_.size() >= kMaxNames) return false;
  requested_.insert(uid);
  queue_.insert(urgent ? queue_.begin() : queue_.end(), uid);
  return true;
}

// Returns false if the worker's queue is full; no look-up runs then.
bool UserDirectory::start_next() {
  if (lookup_running_ || queue_.empty()) return true;
  const std::uint32_t uid = queue_.front();
  queue_.pop_front();
  lookup_running_ = run_on_worker(
      worker_, [look_up = look_up_, uid] { return look_up(uid); },
      lifetime_.guard([this, uid](const Result<std::string>& name) {
        lookup_running_ = false;
        on_looked_up(uid, name);
        start_next();
      }));
  if (lookup_running_) return true;
  queue_.clear();
  requested_.clear();
  return false;
}

void UserDirectory::on_looked_up(std::uint32_t uid, const Result<std::string>& name) {
  requested_.erase(uid);
  while (cache_.size() >= kMaxNames && !cache_.contains(uid)) {
    cache_.erase(std::ranges::min_element(cache_, {},
                                          [](const auto& one) { return one.second.expires_at; }));
  }
  CachedName& cached = cache_[uid];
  const bool failed = !name && name.error().code != Errc::not_found;
  cached.expires_at = loop_.now() + (failed ? kFailureRetention : kNameRetention);
  if (!failed) {  // otherwise the earlier result stays valid
    cached.name = name ? std::optional(*name) : std::nullopt;
    cached.gone = !name;
  }
  std::vector<std::uint64_t> served;
  for (auto& [id, waiting] : waiting_) {
    if (waiting.unknown.erase(uid) > 0 && waiting.unknown.empty()) served.push_back(id);
  }
  for (const std::uint64_t id : served) finish_resolve(id);
}

void UserDirectory::finish_resolve(std::uint64_t id) {
  if (auto waiting = waiting_.extract(id)) waiting.mapped().on_done();
}

void GroupDirectory::query(std::uint32_t uid, OnMember on_member) {
  const auto found = cache_.find(uid);
  if (found != cache_.end() && loop_.now() < found->second.expires_at)
    return on_member(found->second.member);
  auto& waiting = waiting_[uid];
  waiting.push_back(std::move(on_member));
  if (waiting.size() > 1) return;
  timeout_timers_[uid] =
      loop_.call_after(kLookUpTimeout, [this, uid] { on_looked_up(uid, false); });
  const bool taken = run_on_worker(
      worker_, [look_up = look_up_, uid] { return look_up(uid); },
      lifetime_.guard([this, uid](const Result<bool>& member) {
        const bool is_member = member && *member;
        if (cache_.size() >= kMaxUsers) cache_.clear();
        cache_[uid] = {is_member, loop_.now() + kMembershipRetention};
        on_looked_up(uid, is_member);
      }));
  if (!taken) loop_.post(lifetime_.guard([this, uid] { on_looked_up(uid, false); }));
}

void GroupDirectory::on_looked_up(std::uint32_t uid, bool member) {
  timeout_timers_.erase(uid);
  const auto found = waiting_.find(uid);
  if (found == waiting_.end()) return;
  const auto waiting = std::move(found->second);
  waiting_.erase(found);
  for (const OnMember& on_member : waiting) on_member(member);
}

}  // namespace gpuyard::daemon
