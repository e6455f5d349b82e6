// Executes and logs NVML's setters and resets in a world server.
#include <fmt/format.h>

#include "gpu/nvml/abi.h"
#include "sim/apply_setting.h"
#include "sim/world_server.h"

namespace gpuyard::sim {
namespace {

Errc errc_of(nvml::ReturnCode code) {
  switch (code) {
    case nvml::kNoPermission:
      return Errc::denied;
    case nvml::kNotSupported:
      return Errc::unsupported;
    case nvml::kGpuIsLost:
    case nvml::kResetRequired:
      return Errc::device_lost;
    case nvml::kDriverNotLoaded:
      return Errc::unavailable;
    default:
      return Errc::invalid;
  }
}

// The code that NVML would return, if it had such a call.
nvml::ReturnCode code_of(Errc code) {
  switch (code) {
    case Errc::denied:
      return nvml::kNoPermission;
    case Errc::unavailable:
      return nvml::kDriverNotLoaded;
    case Errc::conflict:
      return nvml::kInUse;
    default:
      return nvml::kUnknown;
  }
}

}  // namespace

bool WorldServer::can_set() const {
  switch (world_.setters) {
    case SetterAccess::owner:
      return sender_.is_owner;
    case SetterAccess::everyone:
      return true;
    case SetterAccess::root:
      return sender_.uid == 0;
    case SetterAccess::nobody:
      break;
  }
  return false;
}

// Every setter call is logged, whatever its result.
Reply WorldServer::set(const Command& command) {
  SettingWrite write = command.write;
  write.gpu = command.gpu;
  nvml::ReturnCode code = nvml::kInvalidArgument;
  if (command.gpu < world_.gpus.size()) {
    code = !world_.driver.loaded ? nvml::kDriverNotLoaded
           : can_set()           ? apply_setting(world_.gpus[command.gpu], write)
                                 : nvml::kNoPermission;
  }
  log_write(write, code);
  if (code == nvml::kSuccess) return {};
  Reply reply =
      reply_of(Error{errc_of(code), fmt::format("{}: NVML code {}", name_of(write.kind), code)});
  reply.nvml_code = code;
  return reply;
}

// Checks the reasons for which a real driver refuses a reset, except for processes on the GPU.
Result<void> WorldServer::check_driver_reset() const {
  if (!world_.driver.loaded) return Error{Errc::unavailable, "the driver is not loaded"};
  if (!can_set()) {
    return Error{Errc::denied,
                 fmt::format("in this world, settings and resets are allowed for {} only",
                             name_of(world_.setters))};
  }
  if (!writer_.is_driver_open()) return {};
  return Error{
      Errc::conflict,
      "a program has the driver open; a reset must wait until all programs have closed NVML"};
}

Result<void> WorldServer::reset(std::uint32_t place, bool as_driver) {
  auto done = as_driver ? check_driver_reset() : Result<void>();
  if (done) done = reset_gpu(world_.gpus[place]);
  log_write({.kind = WriteKind::reset, .gpu = place},
            done ? nvml::kSuccess : code_of(done.error().code));
  return done;
}

void WorldServer::log_write(const SettingWrite& write, std::int32_t nvml_code) {
  writer_.log_write({.write = write,
                     .nvml_code = nvml_code,
                     .peer_pid = static_cast<std::uint32_t>(sender_.pid),
                     .peer_uid = sender_.uid});
}

// Logs driver changes of every origin: a command, a scenario, or a reload that fell due.
void WorldServer::log_driver_changes() {
  const Driver& driver = world_.driver;
  const bool another = driver.session != logged_session_;
  if (logged_loaded_ && (another || !driver.loaded)) {
    log_write({.kind = WriteKind::driver_unloaded, .gpu = kEveryGpu}, nvml::kSuccess);
  }
  if (another) {
    log_write({.kind = WriteKind::driver_loaded, .gpu = kEveryGpu, .values = {driver.session, 0}},
              nvml::kSuccess);
  }
  logged_session_ = driver.session;
  logged_loaded_ = driver.loaded;
}

}  // namespace gpuyard::sim
