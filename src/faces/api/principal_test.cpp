#include "faces/api/principal.h"

#include <gtest/gtest.h>

#include "faces/api/bound_route.h"
#include "faces/api/caller_for_tests.h"
#include "faces/api/router.h"

namespace gpuyard::api {
namespace {

using protocol::RouteInfo;
using protocol::Scope;

constexpr RouteInfo kControl{
    "POST", "/things", "GPU", Scope::control, protocol::GpuScope::some, "Changes a thing."};

Principal over_tcp() {
  return principal_of({}, kDaemonUid);
}
Principal over_unix(uid_t uid) {
  return principal_of(local_user(uid), kDaemonUid);
}

TEST(Principal, PlainTcpIsAnonymousWithReadScope) {
  EXPECT_EQ(over_tcp().uid, std::nullopt);
  EXPECT_EQ(over_tcp().scope, Scope::read);
  EXPECT_EQ(over_tcp().name(), "anonymous over TCP");
}

TEST(Principal, PlainTcpIgnoresUid) {
  http::Peer peer;
  peer.uid = 0;
  EXPECT_EQ(principal_of(peer, kDaemonUid).scope, Scope::read);
}

TEST(Principal, UnixSocketUsesKernelUid) {
  EXPECT_EQ(over_unix(1000).uid, 1000U);
  EXPECT_EQ(over_unix(1000).name(), "uid 1000");
}

TEST(Principal, RootAndTheDaemonsOwnUserAreAdmin) {
  EXPECT_EQ(over_unix(0).scope, Scope::admin);
  EXPECT_EQ(over_unix(kDaemonUid).scope, Scope::admin);
}

TEST(Principal, OtherUsersMayReadAndLease) {
  EXPECT_EQ(over_unix(1000).scope, Scope::lease);
}

TEST(Principal, LeaseSocketLimitsScopeToLease) {
  Authority authority(kDaemonUid, "gpuyard", 500);
  authority.lease_socket = "/run/gpuyard/lease.sock";
  http::Peer peer = local_user(0);
  peer.groups = {500};
  for (const uid_t uid : {uid_t{0}, kDaemonUid, uid_t{1000}}) {
    peer.uid = uid;
    peer.listener = "/run/gpuyard/lease.sock";
    const Principal principal = principal_of(peer, authority);
    EXPECT_EQ(principal.uid, uid);
    EXPECT_EQ(principal.scope, Scope::lease);
    const auto refused = authorise(principal, kControl, authority);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().text().ends_with(
        "this socket allows leasing only; use the daemon's main socket"));
    peer.listener = "/run/gpuyard/gpuyard.sock";
    EXPECT_GT(principal_of(peer, authority).scope, Scope::lease);
  }
}

TEST(Principal, LeaseSocketHidesArguments) {
  Authority authority(kDaemonUid);
  authority.lease_socket = "/run/gpuyard/lease.sock";
  http::Peer peer = local_user(0);
  peer.listener = authority.lease_socket;
  const ProcessMetadata of_root{};
  EXPECT_FALSE(can_see_arguments(principal_of(peer, authority), of_root));
  peer.listener = "/run/gpuyard/gpuyard.sock";
  EXPECT_TRUE(can_see_arguments(principal_of(peer, authority), of_root));
}

TEST(Principal, MembersOfTheGroupMayControl) {
  RecordProperty("contract", "E15");
  const Authority authority(kDaemonUid, "gpuyard", 500);
  http::Peer peer = local_user(1000);
  peer.groups = {100, 500};
  EXPECT_EQ(principal_of(peer, authority).scope, Scope::control);
  EXPECT_EQ(principal_of(peer, Authority(kDaemonUid, "gpuyard", std::nullopt)).scope, Scope::lease);
  peer.kind = http::Peer::Kind::tcp;
  EXPECT_EQ(principal_of(peer, authority).scope, Scope::read);
}

TEST(Authority, RefusalNamesGroupAndCommand) {
  RecordProperty("contract", "E15");
  const auto refusal = [](const Authority& authority) {
    return authorise(over_unix(1000), kControl, authority).error().text();
  };
  EXPECT_NE(refusal({kDaemonUid, "gpuyard", 500}).find("`usermod -aG gpuyard USER`"),
            std::string::npos);
  EXPECT_NE(refusal({kDaemonUid, "gpuyard", std::nullopt}).find("`groupadd --system gpuyard`"),
            std::string::npos);
  EXPECT_NE(refusal(kDaemonUid).find("ask an administrator"), std::string::npos);
}

TEST(Authority, TcpRefusalPointsToUnixSocket) {
  const auto refused = authorise(over_tcp(), kControl, kDaemonUid);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(),
            "this request needs the scope \"control\": TCP without TLS is read-only; use the Unix "
            "socket, ssh, or a token over TLS");
}

TEST(Authority, UserRefusalPointsToAdministrator) {
  const auto refused = authorise(over_unix(1000), kControl, kDaemonUid);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().text(),
      "this request needs the scope \"control\"; UID 1000 has \"lease\": ask an administrator of "
      "this machine");
  EXPECT_EQ(
      authorise(over_unix(1000), kControl, {kDaemonUid, "gpuyard", 500}, "alice").error().cause,
      "user alice is not in the group \"gpuyard\"");
}

TEST(Authority, ChangingRoutesExcludeTcpAndAdmitRoot) {
  for (const BoundRoute& route : all_routes()) {
    const bool open = authorise(over_tcp(), route.info, kDaemonUid).ok();
    EXPECT_TRUE(!open || route.info.method == "GET") << route.info.pattern;
    EXPECT_EQ(open, route.info.scope <= Scope::read) << route.info.pattern;
    EXPECT_TRUE(authorise(over_unix(0), route.info, kDaemonUid)) << route.info.pattern;
  }
}

ProcessMetadata of_user(std::uint32_t real, std::uint32_t effective) {
  ProcessMetadata facts;
  facts.real_uid = real;
  facts.uid = effective;
  return facts;
}

TEST(Arguments, AreForTheProcesssOwnUserAndAdministrators) {
  const auto alices = of_user(1000, 1000);
  EXPECT_TRUE(can_see_arguments(over_unix(1000), alices));
  EXPECT_FALSE(can_see_arguments(over_unix(1001), alices));
  EXPECT_TRUE(can_see_arguments(over_unix(0), alices));
  EXPECT_TRUE(can_see_arguments(over_unix(kDaemonUid), alices));
}

TEST(Arguments, CallerWithoutUidSeesNone) {
  EXPECT_FALSE(can_see_arguments(over_tcp(), of_user(1000, 1000)));
  EXPECT_FALSE(can_see_arguments({std::nullopt, Scope::admin}, of_user(1000, 1000)));
}

TEST(Arguments, SetuidProcessArgumentsAreHiddenFromBothUsers) {
  EXPECT_FALSE(can_see_arguments(over_unix(1000), of_user(1000, 1001)));
  EXPECT_FALSE(can_see_arguments(over_unix(1001), of_user(1000, 1001)));
}

}  // namespace
}  // namespace gpuyard::api
