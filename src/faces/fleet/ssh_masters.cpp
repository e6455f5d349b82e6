#include "faces/fleet/ssh_masters.h"

#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/files.h"
#include "base/mutex.h"
#include "base/spawn.h"
#include "base/unique_fd.h"
#include "faces/fleet/fan_out.h"
#include "io/http/endpoint.h"

namespace gpuyard::fleet {
namespace {

// ssh adds a slash, %C, which is 40 digits, and while it makes the socket 17 signs more.
constexpr std::size_t kSocketNameLength = 1 + 40 + 17;

bool can_hold_socket(const std::string& directory) {
  return directory.size() + kSocketNameLength <= http::kMaxUnixPath;
}

std::vector<std::string> sockets_in(const std::string& directory) {
  std::vector<std::string> sockets;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), &::closedir);
  if (!open) return sockets;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_type == DT_SOCK) sockets.push_back(directory + "/" + entry->d_name);
  }
  return sockets;
}

bool is_listening(const std::string& socket) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(socket));
  if (!address) return false;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(fd.get(), address->get(), address->length) == 0 || errno == EAGAIN;
}

// Ends a master, and returns whether it is gone. ssh requires a host's name, but uses only the
// path.
bool close_master(const std::string& socket) {
  const TimePoint deadline = BootClock::now() + kMasterCloseTimeout;
  static_cast<void>(
      run_with_timeout({.program = "ssh",
                        .arguments = {"-F/dev/null", "-oControlPath=" + socket, "-Oexit", "x"},
                        .search_path = true},
                       kMasterCloseTimeout)
          .ok());
  while (is_listening(socket)) {
    if (BootClock::now() >= deadline) return false;
    constexpr auto kSocketPollInterval = std::chrono::milliseconds(5);
    std::this_thread::sleep_for(kSocketPollInterval);
  }
  return true;
}

}  // namespace

std::vector<std::string> masters_directories(const Environment& environment) {
  std::vector<std::string> directories;
  std::string runtime_directory = environment.xdg_runtime_dir + "/gpuyard-ssh";
  if (!environment.xdg_runtime_dir.empty() && can_hold_socket(runtime_directory))
    directories.push_back(std::move(runtime_directory));
  directories.push_back(fallback_directory(environment) + "-ssh");
  return directories;
}

Result<std::string> make_masters_directory(const Environment& environment) {
  Result<void> made;
  for (std::string& directory : masters_directories(environment)) {
    made = make_private_directory(directory);  // under sudo the first may be another user's
    if (made) return std::move(directory);
  }
  return std::move(made).error();
}

ClosedMasters close_masters(const std::string& directory) {
  if (!check_private_directory(directory)) return {};
  std::vector<std::string> sockets = sockets_in(directory);
  ClosedMasters result;
  std::erase_if(sockets, [](const std::string& socket) {
    const bool stale = !is_listening(socket);
    if (stale) ::unlink(socket.c_str());
    return stale;
  });
  Mutex mutex;  // guards `result`
  WorkerPool(sockets.size(), [&](std::size_t i) {
    const bool ended = close_master(sockets[i]);
    const MutexLock lock(mutex);
    if (ended) ++result.closed;
    if (!ended) result.remaining.push_back(sockets[i]);
  }).finish();
  return result;
}

}  // namespace gpuyard::fleet
