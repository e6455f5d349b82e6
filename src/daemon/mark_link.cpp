#include "daemon/mark_link.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/spawn.h"
#include "http/endpoint.h"
#include "processes/mark_host.h"

namespace gpuyard::daemon {
namespace {

bool may_read_environments() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  const auto has = [&](int capability) {
    return (data.at(CAP_TO_INDEX(capability)).effective & CAP_TO_MASK(capability)) != 0;
  };
  return has(CAP_SYS_PTRACE) && has(CAP_DAC_READ_SEARCH);
}

Result<processes::MarkLink> start_marks(const std::string& proc_root) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("making the socket of gpuyard marks");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto child = spawn({.arguments = {std::string(kMarksVerb), proc_root},
                            .given = {theirs.get()},  // stderr is its log
                            .keeps_capabilities = true});
  if (!child) return Error(child.error()).in("gpuyard marks");
  return processes::MarkLink{std::move(ours), *child};
}

Result<processes::MarkLink> connect_to_marks(const std::string& path) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(path));
  if (!address) return address.error();
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::connect(socket.get(), address->get(), address->length) != 0) {
    return system_error("connecting to " + path);
  }
  return processes::MarkLink{std::move(socket)};
}

std::string proc_root_of_configuration() {
  const auto config = config::load(Environment::of_process(), "");
  if (config) return config->processes.proc_root;
  log::warning("gpuyard marks uses its defaults: {}", config.error().text());
  return config::Config{}.processes.proc_root;
}

}  // namespace

std::shared_ptr<processes::MarkClient> connect_marks(const config::Config& config) {
  processes::MarkClient::Open open;
  if (may_read_environments()) {
    open = [root = config.processes.proc_root] { return start_marks(root); };
  } else {
    open = [path = config.processes.marks_socket] { return connect_to_marks(path); };
  }
  auto marks = std::make_shared<processes::MarkClient>(std::move(open));
  marks->connect();
  return marks;
}

void run_marks(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_NAME, "gpuyard-marks");
  UniqueFd socket(processes::kMarkSocket);
  if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0) {
    log::error("gpuyard marks is started by `gpuyard serve` or by its unit, not by hand");
    ::_exit(2);
  }
  if (!processes::may_ask(socket.get())) {
    log::error("gpuyard marks answers only the daemon's user, who owns the socket, and root");
    ::_exit(2);
  }
  const bool child = !arguments.empty();
  if (child) {
    // Only the daemon decides when its child ends.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  const processes::MarkRoots roots{std::string(processes::kProcRoot),
                                   child ? arguments.front() : proc_root_of_configuration()};
  processes::confine_marks();
  processes::serve_marks(std::move(socket), roots);
  ::_exit(0);
}

}  // namespace gpuyard::daemon
