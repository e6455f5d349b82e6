// Reads any text as the body of a claim: it is refused with a message, or it is a wish that leasing
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

void check_wish(const protocol::LeaseWish& body) {
  static const Snapshot gpus = two_gpus();
  const auto wish = protocol::wish_of(body, gpus);
  if (!wish) return fuzz::require(!wish.error().message.empty(), "a refusal says why");
  fuzz::require(static_cast<bool>(lease::check(*wish)), "leasing takes what is not refused");
  fuzz::require(wish->gpus >= 1 && wish->gpus <= lease::kMostGpus, "as many GPUs as there can be");
  fuzz::require(wish->among.size() <= gpus.devices.size(), "each GPU once");
  for (const auto& time : {wish->longest, wish->patience, std::optional(wish->ttl)}) {
    fuzz::require(!time || (*time >= Duration::zero() && *time <= kYear), "times do not overflow");
  }
  fuzz::require(wish->note.size() <= protocol::kLongestNote, "a note has its limit");
  fuzz::require(wish->model.size() <= protocol::kLongestModel, "a model has its limit");
}

void check_text(std::string_view text) {
  const auto body = json::from_json<protocol::LeaseWish>(text);
  if (!body) return fuzz::require(!body.error().message.empty(), "a refusal says why");
  check_wish(*body);
  const auto within = protocol::answer_within_of(*body);
  fuzz::require(within >= Duration::zero() && within <= protocol::kLatestAnswer,
                "an answer does not wait for ever");
  // This version of Boost.JSON may read a fraction with a wrong last bit.
  protocol::LeaseWish exact = *body;
  exact.max_time_s = exact.wait_s = exact.ttl_s = exact.answer_within_s = std::nullopt;
  const std::string written = json::to_json(exact);
  const auto again = json::from_json<protocol::LeaseWish>(written);
  fuzz::require(static_cast<bool>(again), "what was written is read");
  fuzz::require(json::to_json(*again) == written, "reading and writing changes nothing");
}

}  // namespace
}  // namespace gpuyard

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpuyard::check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
