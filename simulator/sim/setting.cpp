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

std::string_view name_of(Setting setting) {
  return enum_name(setting);
}

std::size_t values_of(Setting setting) {
  switch (setting) {
    case Setting::gpu_locked_clocks:
    case Setting::memory_locked_clocks:
      return 2;
    case Setting::gpu_locked_clocks_reset:
    case Setting::memory_locked_clocks_reset:
    case Setting::reset:
    case Setting::driver_unloaded:
      return 0;
    default:
      return 1;
  }
}

namespace {

constexpr timeval kSocketPatience{.tv_sec = 2, .tv_usec = 0};

// The address goes through an open descriptor of the directory, whose path may be longer than an
// address allows. WorldSocketAddress does the same, but needs libraries that this one must not
// load.
bool connect_to(const UniqueFd& socket, const UniqueFd& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory.get(),
                kKeeperSocket);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::int32_t call_setter(const std::string& directory, const SettingWrite& write) {
  const UniqueFd opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!opened || !socket) return nvml::kDriverNotLoaded;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSocketPatience, sizeof kSocketPatience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kSocketPatience, sizeof kSocketPatience);
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

namespace {

constexpr std::array<std::string_view, 4> kSettersNames{"owner", "everyone", "root", "nobody"};
static_assert(kSettersNames.size() == static_cast<std::size_t>(SetterAccess::nobody) + 1);

}  // namespace

std::string_view name_of(SetterAccess setters) {
  const auto index = static_cast<std::size_t>(setters);
  return index < kSettersNames.size() ? kSettersNames[index] : "unknown";
}

std::optional<SetterAccess> setters_from_name(std::string_view name) {
  const auto at = std::ranges::find(kSettersNames, name);
  if (at == kSettersNames.end()) return std::nullopt;
  return static_cast<SetterAccess>(at - kSettersNames.begin());
}

std::vector<std::string_view> setters_names() {
  return {kSettersNames.begin(), kSettersNames.end()};
}

}  // namespace gpuyard::sim
