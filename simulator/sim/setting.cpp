#include "sim/setting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>

#include "base/record.h"
#include "base/unique_fd.h"
#include "gpu/nvml/abi.h"
#include "sim/command.h"

namespace gpuyard::sim {

std::string_view name_of(WriteKind setting) {
  return enum_name(setting);
}

std::size_t value_count(WriteKind setting) {
  switch (setting) {
    case WriteKind::gpu_locked_clocks:
    case WriteKind::memory_locked_clocks:
      return 2;
    case WriteKind::gpu_locked_clocks_reset:
    case WriteKind::memory_locked_clocks_reset:
    case WriteKind::reset:
    case WriteKind::driver_unloaded:
      return 0;
    default:
      return 1;
  }
}

namespace {

constexpr timeval kSocketTimeout{.tv_sec = 2, .tv_usec = 0};

// The address goes through an open descriptor of the directory, whose path may be longer than an
// address allows. WorldSocketAddress does the same, but needs libraries that this one must not
// load.
bool connect_to(const UniqueFd& socket, const UniqueFd& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory.get(),
                kWorldSocket);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

constexpr std::array<std::string_view, 4> kSetterAccessNames{"owner", "everyone", "root", "nobody"};
static_assert(kSetterAccessNames.size() == static_cast<std::size_t>(SetterAccess::nobody) + 1);

}  // namespace

std::int32_t call_setter(const std::string& directory, const SettingWrite& write) {
  const UniqueFd opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!opened || !socket) return nvml::kDriverNotLoaded;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSocketTimeout, sizeof kSocketTimeout);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kSocketTimeout, sizeof kSocketTimeout);
  if (!connect_to(socket, opened)) {
    return errno == EAGAIN ? nvml::kTimeout : nvml::kDriverNotLoaded;
  }
  Command command;
  command.verb = Verb::set;
  command.gpu = write.gpu;
  command.write = write;
  Reply reply;
  if (::send(socket.get(), &command, sizeof command, MSG_NOSIGNAL) != ssize_t{sizeof command} ||
      ::recv(socket.get(), &reply, sizeof reply, 0) != ssize_t{sizeof reply}) {
    return errno == EAGAIN ? nvml::kTimeout : nvml::kDriverNotLoaded;
  }
  if (reply.failed != 0 && reply.nvml_code == nvml::kSuccess) return nvml::kUnknown;
  return reply.nvml_code;
}

std::string_view name_of(SetterAccess setters) {
  const auto index = static_cast<std::size_t>(setters);
  return index < kSetterAccessNames.size() ? kSetterAccessNames[index] : "unknown";
}

std::optional<SetterAccess> setter_access_from_name(std::string_view name) {
  const auto at = std::ranges::find(kSetterAccessNames, name);
  if (at == kSetterAccessNames.end()) return std::nullopt;
  return static_cast<SetterAccess>(at - kSetterAccessNames.begin());
}

std::vector<std::string_view> setter_access_names() {
  return {kSetterAccessNames.begin(), kSetterAccessNames.end()};
}

}  // namespace gpuyard::sim
