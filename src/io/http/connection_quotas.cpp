#include "io/http/connection_quotas.h"

#include <algorithm>
#include <utility>

namespace gpuyard::http {

namespace {

const std::set<Connection*> kNoConnections;

}  // namespace

const ConnectionQuotas::ConnectionSet& ConnectionQuotas::find_connections(
    const GroupConnections& share, SlotKey seat) {
  if (seat == nullptr) return share.all;
  const auto here = share.by_slot.find(seat);
  return here == share.by_slot.end() ? kNoConnections : here->second;
}

const ConnectionQuotas::ConnectionSet& ConnectionQuotas::find_connections(
    const ConnectionsByGroup& shares, const QuotaGroup& party, SlotKey seat) {
  const auto share = shares.find(party);
  return share == shares.end() ? kNoConnections : find_connections(share->second, seat);
}

void ConnectionQuotas::insert(ConnectionsByGroup& shares, Connection& connection) {
  GroupConnections& share = shares[connection.quota_group()];
  share.by_slot[connection.slot()].insert(&connection);
  share.all.insert(&connection);
}

void ConnectionQuotas::erase(ConnectionsByGroup& shares, Connection& connection) {
  const auto share = shares.find(connection.quota_group());
  if (share == shares.end() || share->second.all.erase(&connection) == 0) return;
  const auto here = share->second.by_slot.find(connection.slot());
  here->second.erase(&connection);
  if (here->second.empty()) share->second.by_slot.erase(here);
  if (share->second.all.empty()) shares.erase(share);
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
  ++streams_by_slot_[connection.slot()];
  insert(streaming_, connection);
}

void ConnectionQuotas::end_stream(Connection& connection) {
  if (streams_.erase(&connection) == 0) return;
  const auto here = streams_by_slot_.find(connection.slot());
  if (--here->second == 0) streams_by_slot_.erase(here);
  erase(streaming_, connection);
}

// The connection counts for no party any more, though it needs a moment to go.
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

bool ConnectionQuotas::evict_from_largest(const ConnectionsByGroup& shares, SlotKey seat,
                                          std::size_t than) {
  const ConnectionSet* most = nullptr;
  for (const auto& [party, share] : shares) {
    const ConnectionSet& some = find_connections(share, seat);
    if (!party.privileged && some.size() > (most == nullptr ? than : most->size())) most = &some;
  }
  if (most == nullptr) return false;
  if (!evict_idlest(*most)) evict(**most->begin());
  return true;
}

bool HandshakeQuotas::admit(const QuotaGroup& party, TimePoint now) {
  const auto is_own = [&](const Handshake* one) { return one->quota_group() == party; };
  const auto own = static_cast<std::size_t>(std::ranges::count_if(all_, is_own));
  const bool own_full = own >= limits_.handshakes_per_group;
  if (!own_full && all_.size() < limits_.handshakes) return true;
  const auto stalled_since = [&](Handshake* one) {
    const bool may_go = !own_full || is_own(one);
    return may_go ? one->waiting_since().value_or(now) : now;
  };
  const auto longest = std::ranges::min_element(all_, {}, stalled_since);
  if (longest == all_.end()) return false;
  Handshake* one = *longest;
  if (now - stalled_since(one) < limits_.handshake_stalled) return false;
  remove(*one);
  one->abort();
  return true;
}

void HandshakeQuotas::abort_all() {
  for (Handshake* one : std::exchange(all_, {})) one->abort();
}

ConnectionQuotas::QuotaDecision ConnectionQuotas::admit(const QuotaGroup& party, SlotKey seat,
                                                        std::size_t taken) {
  const ConnectionSet& own = find_connections(open_, party, nullptr);
  if (!party.privileged && own.size() >= limits_.connections_per_group) {
    const std::size_t had_here = find_connections(open_, party, seat).size();
    if (!evict_idlest(own)) return QuotaDecision::group_full;
    // The ended connection had a seat here, which is free in a moment.
    if (find_connections(open_, party, seat).size() < had_here) return QuotaDecision::admitted;
  }
  if (taken < limits_.connections + (party.privileged ? limits_.reserved_slots : 0)) {
    return QuotaDecision::admitted;
  }
  const std::size_t own_here = find_connections(open_, party, seat).size();
  if (evict_from_largest(open_, seat, own_here + 1)) return QuotaDecision::admitted;
  // An idle connection of the party itself, or of one that has more.
  ConnectionSet may_go;
  for (const auto& [other, share] : open_) {
    const ConnectionSet& here = find_connections(share, seat);
    const bool gives_way = other == party || (!other.privileged && here.size() > own_here);
    if (gives_way) may_go.insert(here.begin(), here.end());
  }
  return evict_idlest(may_go) ? QuotaDecision::admitted : QuotaDecision::server_full;
}

ConnectionQuotas::QuotaDecision ConnectionQuotas::admit_stream(const Connection& wants) {
  const bool has_kept_places = wants.quota_group().privileged;
  const std::size_t own = find_connections(streaming_, wants.quota_group(), nullptr).size();
  if (!has_kept_places && own >= limits_.streams_per_group) return QuotaDecision::group_full;
  const std::size_t more = has_kept_places ? limits_.reserved_slots : 0;
  const auto at = streams_by_slot_.find(wants.slot());
  const std::size_t here = at == streams_by_slot_.end() ? 0 : at->second;
  SlotKey full = nullptr;  // a null seat is all of them
  if (streams_.size() < limits_.total_streams + more) {
    if (here < limits_.streams + more) return QuotaDecision::admitted;
    full = wants.slot();
  }
  return evict_from_largest(streaming_, full, own + 1) ? QuotaDecision::admitted
                                                       : QuotaDecision::server_full;
}

}  // namespace gpuyard::http
