// A client of one Kubernetes API server: four verbs on JSON, one request at a time. Knows no kind
// of object.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "io/http/client.h"
#include "io/kube/answer.h"
#include "io/kube/api_server.h"

namespace gpuyard::kube {

inline constexpr Duration kRequestTimeout = std::chrono::seconds(10);
// A longer answer is refused as soon as its length is known.
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{16} * 1024 * 1024;

// "" selects all.
struct ListOptions {
  std::string label_selector = {};  // "gpuyard.io/node=n1"
  std::string field_selector = {};  // "spec.nodeName=n1"
  unsigned limit = 0;  // of objects in the answer, the rest of which is asked for; 0: none
  std::string continue_at = {};  // metadata.continue of the answer before
};

// How a patch treats lists: merge replaces them whole, strategic_merge adds to those that have a
// key in the API, as a Node's conditions have.
enum class PatchType : std::uint8_t { merge, strategic_merge };

// Thread: any, one at a time; each call blocks for `timeout` at most. Each request has a connection
// of its own, for which CA and token are read anew: a rotated file counts from the next request on,
// also after Outcome::unauthorized or a failed handshake. Nothing is retried here. Redirects are
// not followed. No call throws. `path`: as path_of() makes it.
class Client {
 public:
  explicit Client(ApiServer server, Duration timeout = kRequestTimeout);

  // A client of the same server.
  Client with_timeout(Duration timeout) const { return Client(server_, timeout); }

  Answer get(std::string_view path) const;
  Answer list(std::string_view path, const ListOptions& = {}) const;
  // `object` is JSON.
  Answer create(std::string_view path, std::string object) const;
  // `patch` is a JSON object. Outcome::conflict if the object is no longer at `resource_version`;
  // "" patches any version.
  Answer patch(std::string_view path, PatchType, std::string patch,
               std::string_view resource_version = {}) const;
  // Outcome::conflict if the object of this name has another `uid`: it was created again. ""
  // removes any.
  Answer remove(std::string_view path, std::string_view uid) const;

 private:
  Answer send(http::ClientRequest) const;

  ApiServer server_;
  Duration timeout_;
};

}  // namespace gpuyard::kube
