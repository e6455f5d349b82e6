// Listening sockets, made so that no client ever sees a half-made one.
#pragma once

#include <sys/types.h>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "io/http/endpoint.h"

namespace gpuyard::http {

// Non-blocking and closed on exec. Errc::conflict if the address is in use, unavailable if this
// machine does not have it now, denied if the port needs more privileges.
Result<UniqueFd> listen_on_tcp(const Endpoint& endpoint);

// The file of a listening Unix socket: removed with its owner, unless another file has taken its
// place.
class SocketFile {
 public:
  SocketFile() = default;
  SocketFile(std::string path, dev_t device, ino_t inode)
      : path_(std::move(path)), device_(device), inode_(inode) {}
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&& other) noexcept;
  ~SocketFile();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct UnixListener {
  UniqueFd socket;
  SocketFile file;
};

// See Server::listen_unix.
Result<UnixListener> listen_on_unix(const std::string& path, unsigned mode);

}  // namespace gpuyard::http
