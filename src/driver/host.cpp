#include "driver/host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "driver/message.h"
#include "driver/readers.h"

namespace gpuyard::driver {
namespace {

Hello hello_without_fleet(const Error& error) {
  return {std::nullopt, static_cast<std::uint32_t>(error.code), error.message};
}

}  // namespace

void serve_host(UniqueFd socket, const MakeBackend& make_backend) {
  const int fd = socket.get();
  auto made = make_backend();
  auto fleet = made ? (*made)->enumerate() : Result<Fleet>(made.error());
  const Hello hello = fleet ? Hello{*fleet, 0, ""} : hello_without_fleet(fleet.error());
  if (!send_message(fd, hello, Wait::yes) || !fleet) return;

  const std::shared_ptr<Backend> backend = *std::move(made);
  // A datagram is sent whole, so the threads need no lock between them. A failed send means that
  // the daemon is gone, which the loop below sees as well.
  Readers readers(backend, fleet->devices, [fd](ReadReply reply) {
    static_cast<void>(send_message(fd, std::move(reply), Wait::yes).ok());
  });
  for (;;) {
    auto message = receive_to_host(fd, Wait::yes);
    if (!message) break;
    auto& request = std::get<ReadRequest>(*message);
    const std::uint64_t id = request.id;
    const DeviceId device = request.device;
    const ProbeSet probes = request.probes;
    if (readers.read(std::move(request))) continue;
    const Missing why{MissingReason::failed, "the driver-host has no such GPU or is too busy"};
    const ReadReply refusal{id, device, missing_sample(probes, why, BootClock::now())};
    if (!send_message(fd, refusal, Wait::yes)) break;
  }
}

void run_host_process(const MakeBackend& make_backend) {
  // Ctrl-C in a terminal reaches the whole process group; when to end is the daemon's to say.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fcntl(kHostSocket, F_SETFD, FD_CLOEXEC) != 0) {
    log::error("driver-host is started by `gpuyard serve`, not by hand");
    ::_exit(2);
  }
  serve_host(UniqueFd(kHostSocket), make_backend);
  ::_exit(0);
}

}  // namespace gpuyard::driver
