#include "driver/carry_out.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::driver {
namespace {

bool is_expected(const Apply& apply, const SettingState& before) {
  if (apply.expected.empty() || !can_be_read(apply.setting.kind)) return true;
  return before.now && std::ranges::find(apply.expected, *before.now) != apply.expected.end();
}

Error unexpected(const Apply& apply, const SettingState& before) {
  const SettingKind kind = apply.setting.kind;
  const std::string now = before.now ? text_of({kind, before.now}) : "not known";
  return {Errc::conflict, fmt::format("the {} is {}, which is not what it was expected to be; "
                                      "somebody else has set it",
                                      words_of(kind), now)};
}

Result<void> check_before(Backend& backend, const DeviceId& device, const Apply& apply,
                          CommandReply& reply) {
  if (auto may = backend.may_control(); !may) return may;
  auto before = backend.look(device, apply.setting.kind);
  if (!before) return std::move(before).error();
  reply.before = *before;
  if (auto allowed = check(apply.setting, *before); !allowed) return allowed;
  if (!is_expected(apply, *before)) return unexpected(apply, *before);
  return {};
}

Result<void> obey(Backend& backend, const DeviceId& device, const Look& look, CommandReply& reply) {
  auto seen = backend.look(device, look.kind);
  if (!seen) return std::move(seen).error();
  reply.before = *std::move(seen);
  return {};
}

Result<void> obey(Backend& backend, const DeviceId& device, const Apply& apply,
                  CommandReply& reply) {
  if (auto checked = check_before(backend, device, apply, reply); !checked) return checked;
  reply.called = true;
  if (auto done = backend.apply(device, apply.setting); !done) return done;
  // What cannot be read back now is not known, and done all the same.
  if (auto after = backend.look(device, apply.setting.kind)) reply.after = *std::move(after);
  return {};
}

Result<void> obey(Backend& backend, const DeviceId& device, const ClearEcc& clear,
                  CommandReply& reply) {
  if (auto may = backend.may_control(); !may) return may;
  reply.called = true;
  return backend.clear_ecc(device, clear.counter);
}

Result<void> obey(Backend& backend, const DeviceId& device, const ReadEnergy&,
                  CommandReply& reply) {
  reply.called = true;
  auto millijoules = backend.total_energy(device);
  if (!millijoules) return std::move(millijoules).error();
  reply.energy_mj = *millijoules;
  return {};
}

CommandReply begun(const CommandRequest& request) {
  CommandReply reply;
  reply.id = request.id;
  reply.device = request.device;
  reply.began = BootClock::now();
  return reply;
}

void finish(CommandReply& reply, const Result<void>& result) {
  if (!result) reply.failure = CommandFailure{result.error().code, result.error().message};
  reply.done = BootClock::now();
}

}  // namespace

CommandReply carry_out(Backend& backend, const CommandRequest& request) {
  CommandReply reply = begun(request);
  const auto result =
      std::visit([&](const auto& command) { return obey(backend, request.device, command, reply); },
                 request.command);
  finish(reply, result);
  return reply;
}

CommandReply refusal(const CommandRequest& request, const Error& why) {
  CommandReply reply = begun(request);
  finish(reply, why);
  return reply;
}

}  // namespace gpuyard::driver
