#include "io/http/connection_quotas.h"

#include <algorithm>
#include <utility>

namespace gpuyard::http {

namespace {

const std::set<Connection*> kNoConnections;

}  // namespace

const ConnectionQuotas::ConnectionSet& ConnectionQuotas::find_connections(
    const GroupConnections& connections, ListenerKey listener) {
  if (listener == nullptr) return connections.all;
  const auto found = connections.by_listener.find(listener);
  return found == connections.by_listener.end() ? kNoConnections : found->second;
}

const ConnectionQuotas::ConnectionSet& ConnectionQuotas::find_connections(
    const ConnectionsByGroup& by_group, const QuotaGroup& group, ListenerKey listener) {
  const auto found = by_group.find(group);
  return found == by_group.end() ? kNoConnections : find_connections(found->second, listener);
}

void ConnectionQuotas::insert(ConnectionsByGroup& by_group, Connection& connection) {
  GroupConnections& connections = by_group[connection.quota_group()];
  connections.by_listener[connection.listener_key()].insert(&connection);
  connections.all.insert(&connection);
}

void ConnectionQuotas::erase(ConnectionsByGroup& by_group, Connection& connection) {
  const auto found = by_group.find(connection.quota_group());
  if (found == by_group.end() || found->second.all.erase(&connection) == 0) return;
  const auto at_listener = found->second.by_listener.find(connection.listener_key());
  at_listener->second.erase(&connection);
  if (at_listener->second.empty()) found->second.by_listener.erase(at_listener);
  if (found->second.all.empty()) by_group.erase(found);
}

void ConnectionQuotas::add(Connection& connection) {
  all_.insert(&connection);
  insert(open_, connection);
}

void ConnectionQuotas::remove(Connection& connection) {
  end_stream(connection);
  erase(open_, connection);
  all_.erase(&connection);
}

void ConnectionQuotas::begin_stream(Connection& connection) {
  streams_.insert(&connection);
  ++streams_by_listener_[connection.listener_key()];
  insert(streaming_, connection);
}

void ConnectionQuotas::end_stream(Connection& connection) {
  if (streams_.erase(&connection) == 0) return;
  const auto found = streams_by_listener_.find(connection.listener_key());
  if (--found->second == 0) streams_by_listener_.erase(found);
  erase(streaming_, connection);
}

// The connection counts for no quota group any more, though it needs a moment to go.
void ConnectionQuotas::evict(Connection& connection) {
  erase(open_, connection);
  erase(streaming_, connection);
  connection.abort();
}

bool ConnectionQuotas::evict_idlest(const ConnectionSet& some) {
  const auto since = [](const Connection* one) {
    return one->waiting_since().value_or(TimePoint::max());
  };
  const auto longest = std::ranges::min_element(some, {}, since);
  if (longest == some.end() || !(*longest)->waiting_since()) return false;
  evict(**longest);
  return true;
}

bool ConnectionQuotas::evict_from_largest(const ConnectionsByGroup& by_group, ListenerKey listener,
                                          std::size_t threshold) {
  const ConnectionSet* largest = nullptr;
  for (const auto& [group, connections] : by_group) {
    const ConnectionSet& some = find_connections(connections, listener);
    if (!group.privileged && some.size() > (largest == nullptr ? threshold : largest->size()))
      largest = &some;
  }
  if (largest == nullptr) return false;
  if (!evict_idlest(*largest)) evict(**largest->begin());
  return true;
}

bool HandshakeQuotas::admit(const QuotaGroup& group, TimePoint now) {
  const auto is_own = [&](const Handshake* one) { return one->quota_group() == group; };
  const auto own = static_cast<std::size_t>(std::ranges::count_if(all_, is_own));
  const bool group_full = own >= limits_.handshakes_per_group;
  if (!group_full && all_.size() < limits_.handshakes) return true;
  const auto stalled_since = [&](Handshake* one) {
    const bool can_evict = !group_full || is_own(one);
    return can_evict ? one->waiting_since().value_or(now) : now;
  };
  const auto longest = std::ranges::min_element(all_, {}, stalled_since);
  if (longest == all_.end()) return false;
  Handshake* one = *longest;
  if (now - stalled_since(one) < limits_.handshake_stall_timeout) return false;
  remove(*one);
  one->abort();
  return true;
}

void HandshakeQuotas::abort_all() {
  for (Handshake* one : std::exchange(all_, {})) one->abort();
}

ConnectionQuotas::QuotaDecision ConnectionQuotas::admit(const QuotaGroup& group,
                                                        ListenerKey listener, std::size_t taken) {
  const ConnectionSet& own = find_connections(open_, group, nullptr);
  if (!group.privileged && own.size() >= limits_.connections_per_group) {
    const std::size_t previous_at_listener = find_connections(open_, group, listener).size();
    if (!evict_idlest(own)) return QuotaDecision::group_full;
    // The ended connection had a slot here, which is free in a moment.
    if (find_connections(open_, group, listener).size() < previous_at_listener)
      return QuotaDecision::admitted;
  }
  if (taken < limits_.connections + (group.privileged ? limits_.reserved_slots : 0)) {
    return QuotaDecision::admitted;
  }
  const std::size_t own_at_listener = find_connections(open_, group, listener).size();
  if (evict_from_largest(open_, listener, own_at_listener + 1)) return QuotaDecision::admitted;
  // An idle connection of the quota group itself, or of one that has more.
  ConnectionSet evictable;
  for (const auto& [other, connections] : open_) {
    const ConnectionSet& at_listener = find_connections(connections, listener);
    const bool can_evict =
        other == group || (!other.privileged && at_listener.size() > own_at_listener);
    if (can_evict) evictable.insert(at_listener.begin(), at_listener.end());
  }
  return evict_idlest(evictable) ? QuotaDecision::admitted : QuotaDecision::server_full;
}

ConnectionQuotas::QuotaDecision ConnectionQuotas::admit_stream(const Connection& connection) {
  const bool has_reserved_slots = connection.quota_group().privileged;
  const std::size_t own = find_connections(streaming_, connection.quota_group(), nullptr).size();
  if (!has_reserved_slots && own >= limits_.streams_per_group) return QuotaDecision::group_full;
  const std::size_t more = has_reserved_slots ? limits_.reserved_slots : 0;
  const auto at = streams_by_listener_.find(connection.listener_key());
  const std::size_t at_listener = at == streams_by_listener_.end() ? 0 : at->second;
  ListenerKey full = nullptr;  // a null key is all of them
  if (streams_.size() < limits_.total_streams + more) {
    if (at_listener < limits_.streams + more) return QuotaDecision::admitted;
    full = connection.listener_key();
  }
  return evict_from_largest(streaming_, full, own + 1) ? QuotaDecision::admitted
                                                       : QuotaDecision::server_full;
}

}  // namespace gpuyard::http
