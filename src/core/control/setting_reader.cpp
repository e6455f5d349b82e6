#include "core/control/setting_reader.h"

#include <utility>

namespace gpuyard::control {

// A read that finds the same one in progress shares its reply, so that reads cannot fill a GPU's
// queue.
void SettingReader::read(const DeviceId& gpu, SettingKind kind, OnSettingRead on_read) {
  for (auto& [id, pending_read] : pending_reads_) {
    if (pending_read.gpu != gpu || pending_read.kind != kind) continue;
    if (pending_read.callbacks.size() >= kMaxCallers)
      return on_read(Error{Errc::busy, "too many requests for this setting"});
    return pending_read.callbacks.push_back(std::move(on_read));
  }
  const std::uint64_t id = ++environment_.last_command_id;
  const bool sent =
      environment_.command_port.send({id, gpu, ReadSetting{kind}, "", environment_.loop.now()});
  if (!sent) return on_read(Error{Errc::busy, "the driver-host is unavailable or too busy"});
  pending_reads_[id] = {gpu, kind, {std::move(on_read)}};
}

bool SettingReader::on_reply(const CommandReply& reply) {
  const auto pending_read = pending_reads_.extract(reply.id);
  if (!pending_read) return false;
  const auto state = reply.failure ? Result<SettingState>(*reply.failure)
                                   : Result<SettingState>(reply.before.value_or(SettingState{}));
  for (const OnSettingRead& on_read : pending_read.mapped().callbacks) on_read(state);
  return true;
}

void SettingReader::on_host_down() {
  for (const auto& [id, pending_read] : std::exchange(pending_reads_, {})) {
    for (const OnSettingRead& on_read : pending_read.callbacks) {
      on_read(Error{Errc::unavailable, "the driver-host exited before responding"});
    }
  }
}

}  // namespace gpuyard::control
