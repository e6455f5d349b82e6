// Leases in words for people: who waits, what was used, how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "faces/protocol/brief.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli {

// "3", or "-" if the GPU is not in the machine now.
std::string index_text(const std::optional<std::uint32_t>&);
// "0,1"
std::string indexes_text(const std::vector<protocol::LeasedGpu>&, std::string_view separator = ",");

// "GPU 3 (H100 80GB HBM3)", "GPUs 0, 1 (H100 80GB HBM3)"
std::string gpus_text(const std::vector<protocol::LeasedGpu>&);

// The pod of a pod's lease, as "default/trainer-0"; else the name of its user, else the uid.
std::string holder_text(const protocol::Lease&);

// "45 s", "12 min", "1 h 05 min", "3 d 4 h"
std::string length_text(double seconds);

// "waiting for 2 GPUs: place 3, all are in use; about 12 min"
std::string waiting_text(const protocol::Lease&);

// Returns " --min-free 40G --model H100", which selects the same GPUs.
std::string filter_words(const ClaimOptions&);

// Returns "2 --model H100 --wait 1h", which follows -n in a command that makes the same claim and
// waits in the queue.
std::string waiting_words(const ClaimOptions&);

// The summary of `gpuyard leases`, and of `gpuyard lease list`.
inline constexpr const char* kLeasesSummary = "List leases and their holders";

// "1 GPU", "2 GPUs"
std::string number_of_gpus(std::int64_t count);

// Says why a claim got no GPUs, as an error whose code gives the exit code. `position` is
// the last one in the queue that the daemon reported, `queue_command` the command that waits for
// the GPUs.
Error claim_error(const protocol::Lease&, const std::optional<protocol::QueuePosition>& position,
                  const std::string& queue_command);

// Says how a lease ended if its holder did not end it.
std::string ending_text(const protocol::Lease&);

// "1 h 02 min on GPU 3 (H100), 1.2 MJ, peak 61.2 GiB, mean utilisation 87 %". `seconds` is how long
// the command ran. A value that nobody could measure is "not known".
std::string summary_text(const protocol::Lease&, double seconds);

// Makes a claim with an id of its own.
protocol::LeaseRequest new_claim(const ClaimOptions&, const char* binding);
// Makes the query for the GPUs that would be free for such a claim.
protocol::FreeQuery free_query_of(const ClaimOptions&);

// Cuts a text to a note's length, in whole characters; a byte that is not UTF-8 becomes U+FFFD.
std::string note_of(std::string_view text);

// Returns what --by means: the API has "_" where people write "-".
std::optional<gpuyard::usage::UsageGrouping> usage_grouping_of(std::string by);

// The lease that the user means. `fence` is set if this process runs under that lease.
struct NamedLease {
  std::string id;
  std::optional<std::uint64_t> fence;
};
Result<NamedLease> named_lease(const std::string& id);

}  // namespace gpuyard::cli
