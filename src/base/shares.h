// What strangers on one machine may have: the numbers of docs/fairness.md, all in one place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuyard {

// Of one user - the one behind his subordinate uids - or of one address on TCP. The configuration
// may say others; administrators have no such share.
struct Shares {
  std::int64_t connections = 512;       // at a time
  std::int64_t streams = 256;           // of them, responses that have no end
  std::int64_t waiting_claims = 200;    // at a time
  std::int64_t claims_a_minute = 600;   // new ones; renewals apart, as many
  std::int64_t changes_a_minute = 240;  // of settings, with a lease or without
};

// What no configuration changes.
namespace shares {

// Connections and streams of a listener, streams of all; fewer where descriptors are few.
inline constexpr std::size_t kConnections = 1536;
inline constexpr std::size_t kStreams = 1024;
inline constexpr std::size_t kAllStreams = 2048;
// Beyond those, and beyond the claims that may wait: for root and the daemon's own user.
inline constexpr std::size_t kKeptPlaces = 32;

// Claims that wait, of all users; fewer where descriptors are few.
inline constexpr std::size_t kWaitingClaims = 20'000;
// Kinds of claims that keep others waiting behind them, of one user and of all.
inline constexpr std::size_t kHeadsOfOwner = 8;
inline constexpr std::size_t kHeads = 64;
// Processes of one user that are being adopted, and those that are counted to one lease by name.
inline constexpr std::size_t kAdopting = 8;
inline constexpr std::size_t kMembers = 64;
// Leases that are over and still known; of whoever has most the oldest are forgotten first.
inline constexpr std::size_t kOver = 20'000;
// What usage.db may have before leases of old days share rows.
inline constexpr std::int64_t kUsageBytes = std::int64_t{256} << 20;

// Changes of settings that wait for one GPU.
inline constexpr std::size_t kChangesOfGpu = 64;
// Lines of the audit that are kept: of each kind, of changes under leases, of refusals; those of
// administrators for a time, however many.
inline constexpr std::int64_t kAuditLines = 10'000;
inline constexpr std::int64_t kLeaseLines = kAuditLines / 2;
inline constexpr std::int64_t kRefusalLines = 1000;
inline constexpr std::chrono::days kAdministratorsLines{90};
// Refusals of one user that are noted in a minute; the rest is counted.
inline constexpr int kRefusalsAMinute = 30;

// One turn of the loop: long answers and streams are written for so long, in such pieces, the queue
// is rendered in so many rows, and so many connections of a listener are accepted.
inline constexpr std::chrono::microseconds kTurn{500};
inline constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kQueueRows = 32;
inline constexpr int kAccepts = 64;

// Questions to the history and to the books of use: at a time, and of one user or address that wait
// for their turn.
inline constexpr std::size_t kQuestions = 2;
inline constexpr std::size_t kQuestionsOfOne = 16;

// Commands that are being started, each for so long at most.
inline constexpr int kStarting = 64;
inline constexpr std::chrono::seconds kStart{5};

}  // namespace shares
}  // namespace gpuyard
