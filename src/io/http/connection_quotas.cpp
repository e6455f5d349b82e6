#include "io/http/connection_quotas.h"

#include <algorithm>
#include <utility>

namespace gpuyard::http {

namespace {

const std::set<Connection*> kNone;

}  // namespace

const Parties::Some& Parties::of(const Share& share, Seat seat) {
  if (seat == nullptr) return share.all;
  const auto here = share.at.find(seat);
  return here == share.at.end() ? kNone : here->second;
}

const Parties::Some& Parties::of(const Shares& shares, const Party& party, Seat seat) {
  const auto share = shares.find(party);
  return share == shares.end() ? kNone : of(share->second, seat);
}

void Parties::put(Shares& shares, Connection& connection) {
  Share& share = shares[connection.party()];
  share.at[connection.seat()].insert(&connection);
  share.all.insert(&connection);
}

void Parties::take(Shares& shares, Connection& connection) {
  const auto share = shares.find(connection.party());
  if (share == shares.end() || share->second.all.erase(&connection) == 0) return;
  const auto here = share->second.at.find(connection.seat());
  here->second.erase(&connection);
  if (here->second.empty()) share->second.at.erase(here);
  if (share->second.all.empty()) shares.erase(share);
}

void Parties::add(Connection& connection) {
  all_.insert(&connection);
  put(open_, connection);
}

void Parties::remove(Connection& connection) {
  end_stream(connection);
  take(open_, connection);
  all_.erase(&connection);
}

void Parties::begin_stream(Connection& connection) {
  streams_.insert(&connection);
  ++streams_at_[connection.seat()];
  put(streaming_, connection);
}

void Parties::end_stream(Connection& connection) {
  if (streams_.erase(&connection) == 0) return;
  const auto here = streams_at_.find(connection.seat());
  if (--here->second == 0) streams_at_.erase(here);
  take(streaming_, connection);
}

// The connection counts for no party any more, though it needs a moment to go.
void Parties::end(Connection& connection) {
  take(open_, connection);
  take(streaming_, connection);
  connection.abort();
}

bool Parties::end_idle(const Some& some) {
  const auto since = [](const Connection* one) {
    return one->waiting_since().value_or(TimePoint::max());
  };
  const auto longest = std::ranges::min_element(some, {}, since);
  if (longest == some.end() || !(*longest)->waiting_since()) return false;
  end(**longest);
  return true;
}

bool Parties::end_of_most(const Shares& shares, Seat seat, std::size_t than) {
  const Some* most = nullptr;
  for (const auto& [party, share] : shares) {
    const Some& some = of(share, seat);
    if (!party.privileged && some.size() > (most == nullptr ? than : most->size())) most = &some;
  }
  if (most == nullptr) return false;
  if (!end_idle(*most)) end(**most->begin());
  return true;
}

bool Handshakes::make_room_for(const Party& party, TimePoint now) {
  const auto is_own = [&](const Handshake* one) { return one->party() == party; };
  const auto own = static_cast<std::size_t>(std::ranges::count_if(all_, is_own));
  const bool own_full = own >= limits_.handshakes_of_one;
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

void Handshakes::abort_all() {
  for (Handshake* one : std::exchange(all_, {})) one->abort();
}

Parties::Room Parties::room_for(const Party& party, Seat seat, std::size_t taken) {
  const Some& own = of(open_, party, nullptr);
  if (!party.privileged && own.size() >= limits_.connections_of_one) {
    const std::size_t had_here = of(open_, party, seat).size();
    if (!end_idle(own)) return Room::own;
    // The ended connection had a seat here, which is free in a moment.
    if (of(open_, party, seat).size() < had_here) return Room::there;
  }
  if (taken < limits_.connections + (party.privileged ? limits_.kept_places : 0)) {
    return Room::there;
  }
  const std::size_t own_here = of(open_, party, seat).size();
  if (end_of_most(open_, seat, own_here + 1)) return Room::there;
  // An idle connection of the party itself, or of one that has more.
  Some may_go;
  for (const auto& [other, share] : open_) {
    const Some& here = of(share, seat);
    const bool gives_way = other == party || (!other.privileged && here.size() > own_here);
    if (gives_way) may_go.insert(here.begin(), here.end());
  }
  return end_idle(may_go) ? Room::there : Room::nobody;
}

Parties::Room Parties::room_to_stream(const Connection& wants) {
  const bool has_kept_places = wants.party().privileged;
  const std::size_t own = of(streaming_, wants.party(), nullptr).size();
  if (!has_kept_places && own >= limits_.streams_of_one) return Room::own;
  const std::size_t more = has_kept_places ? limits_.kept_places : 0;
  const auto at = streams_at_.find(wants.seat());
  const std::size_t here = at == streams_at_.end() ? 0 : at->second;
  Seat full = nullptr;  // a null seat is all of them
  if (streams_.size() < limits_.all_streams + more) {
    if (here < limits_.streams + more) return Room::there;
    full = wants.seat();
  }
  return end_of_most(streaming_, full, own + 1) ? Room::there : Room::nobody;
}

}  // namespace gpuyard::http
