// Reads any text as the body of a claim: it is refused with a message, or it is a spec that leasing
// accepts and that means the same when it is written and read again.
#include <cstddef>
#include <cstdint>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "faces/protocol/leases.h"
#include "require.h"

namespace gpuyard {
namespace {

constexpr Duration kYear = std::chrono::hours(366 * 24);

Snapshot two_gpus() {
  Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.devices.resize(2);
  snapshot.devices[0].info = {"GPU-a", 0, "GPU-a", "0000:11:00.0", "H100", {}};
  snapshot.devices[1].info = {"GPU-b", 1, "GPU-b", "0000:14:00.0", "H100", {}};
  return snapshot;
}

void check_request(const protocol::LeaseRequest& body) {
  static const Snapshot gpus = two_gpus();
  const auto spec = protocol::lease_spec_of(body, gpus);
  if (!spec) return fuzz::require(!spec.error().message.empty(), "a refusal says why");
  fuzz::require(static_cast<bool>(lease::check_spec(*spec)), "leasing takes what is not refused");
  fuzz::require(spec->gpus >= 1 && spec->gpus <= lease::kMaxGpus, "as many GPUs as there can be");
  fuzz::require(spec->allowed_gpus.size() <= gpus.devices.size(), "each GPU once");
  for (const auto& time : {spec->max_hold_time, spec->wait_timeout, std::optional(spec->ttl)}) {
    fuzz::require(!time || (*time >= Duration::zero() && *time <= kYear), "times do not overflow");
  }
  fuzz::require(spec->note.size() <= protocol::kMaxNoteBytes, "a note has its limit");
  fuzz::require(spec->model.size() <= protocol::kMaxModelBytes, "a model has its limit");
}

void check_text(std::string_view text) {
  const auto body = json::from_json<protocol::LeaseRequest>(text);
  if (!body) return fuzz::require(!body.error().message.empty(), "a refusal says why");
  check_request(*body);
  const auto within = protocol::answer_timeout_of(*body);
  fuzz::require(within >= Duration::zero() && within <= protocol::kMaxAnswerTimeout,
                "an answer does not wait for ever");
  // This version of Boost.JSON may read a fraction with a wrong last bit.
  protocol::LeaseRequest exact = *body;
  exact.max_time_s = exact.wait_s = exact.ttl_s = exact.answer_within_s = std::nullopt;
  const std::string written = json::to_json(exact);
  const auto again = json::from_json<protocol::LeaseRequest>(written);
  fuzz::require(static_cast<bool>(again), "what was written is read");
  fuzz::require(json::to_json(*again) == written, "reading and writing changes nothing");
}

}  // namespace
}  // namespace gpuyard

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpuyard::check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
