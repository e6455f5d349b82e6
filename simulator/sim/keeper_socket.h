// Addresses of a keeper's socket, of any length.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::sim {

// A Unix address holds 107 bytes and a directory's path may be longer, so the address goes through
// an open descriptor of the directory: /proc/self/fd/<n>/keeper.sock. Keep this as long as it is
// used.
class KeeperAddress {
 public:
  static Result<KeeperAddress> in(const std::string& directory);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return sizeof address_; }
  const char* path() const { return address_.sun_path; }

 private:
  explicit KeeperAddress(UniqueFd directory);

  UniqueFd directory_;
  sockaddr_un address_{};
};

}  // namespace gpuyard::sim
