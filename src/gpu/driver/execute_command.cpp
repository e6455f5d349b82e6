#include "gpu/driver/execute_command.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "base/try.h"

namespace gpuyard::driver {
namespace {

bool is_expected(const Apply& apply, const SettingState& before) {
  if (apply.expected.empty() || !can_be_read(apply.setting.kind)) return true;
  return before.now && std::ranges::find(apply.expected, *before.now) != apply.expected.end();
}

Error unexpected_value_error(const Apply& apply, const SettingState& before) {
  const SettingKind kind = apply.setting.kind;
  const std::string now = before.now ? text_of({kind, before.now}) : "unknown";
  return {
      Errc::conflict,
      fmt::format("the {} is {}, which is not the expected value; it was changed outside gpuyard",
                  display_name(kind), now)};
}

Result<void> check_before(Backend& backend, const DeviceId& device, const Apply& apply,
                          CommandReply& reply) {
  GPUYARD_TRY(backend.check_control());
  auto before = GPUYARD_TRY(backend.read_setting(device, apply.setting.kind));
  reply.before = before;
  GPUYARD_TRY(check_setting(apply.setting, before));
  if (!is_expected(apply, before)) return unexpected_value_error(apply, before);
  return {};
}

Result<void> execute(Backend& backend, const DeviceId& device, const ReadSetting& command,
                     const AdmissionCheck&, CommandReply& reply) {
  reply.before = GPUYARD_TRY(backend.read_setting(device, command.kind));
  return {};
}

Result<void> execute(Backend& backend, const DeviceId& device, const Apply& apply,
                     const AdmissionCheck& admit, CommandReply& reply) {
  GPUYARD_TRY(check_before(backend, device, apply, reply));
  GPUYARD_TRY(admit ? admit(reply.before) : Result<void>());
  reply.called = true;
  GPUYARD_TRY(backend.apply(device, apply.setting));
  // The write is done even if the setting cannot be read back; its value is then unknown.
  if (auto after = backend.read_setting(device, apply.setting.kind))
    reply.after = *std::move(after);
  return {};
}

Result<void> execute(Backend& backend, const DeviceId& device, const ClearEcc& clear,
                     const AdmissionCheck& admit, CommandReply& reply) {
  GPUYARD_TRY(backend.check_control());
  GPUYARD_TRY(admit ? admit(std::nullopt) : Result<void>());
  reply.called = true;
  return backend.clear_ecc(device, clear.counter);
}

Result<void> execute(Backend& backend, const DeviceId& device, const ReadEnergy&,
                     const AdmissionCheck&, CommandReply& reply) {
  reply.called = true;
  reply.energy_mj = GPUYARD_TRY(backend.total_energy(device));
  return {};
}

CommandReply begin_reply(const CommandRequest& request) {
  CommandReply reply;
  reply.id = request.id;
  reply.device = request.device;
  reply.began = BootClock::now();
  return reply;
}

void finish_reply(CommandReply& reply, const Result<void>& result) {
  if (!result) reply.failure = Error{result.error().code, result.error().text()};
  reply.done = BootClock::now();
}

// The beginning of the log line; tools match it.
struct Words {
  std::string done;
  std::string failed;
};

constexpr std::size_t kMaxRequestIdBytes = 128;

Words words_of_switch(const Setting& setting, std::string_view beginning, std::string_view within) {
  const bool on = setting.value && setting.value->lowest != 0;
  return {fmt::format("{} {}", beginning, on ? "enabled" : "disabled"),
          fmt::format("Cannot {} {}", on ? "enable" : "disable", within)};
}

Words words_of(const Setting& setting) {
  const std::string to = text_of(setting);
  switch (setting.kind) {
    case SettingKind::power_limit: {
      const std::int64_t watts = setting.value ? setting.value->lowest / 1000 : 0;
      return {fmt::format("Power limit set to {} W", watts),
              fmt::format("Cannot set power limit to {} W", watts)};
    }
    case SettingKind::gpu_clocks:
      if (!setting.value) return {"GPU locked clocks reset", "Cannot reset GPU locked clocks"};
      return {"GPU frequency set to " + to, "Cannot set GPU frequency to " + to};
    case SettingKind::memory_clocks:
      if (!setting.value)
        return {"Memory locked clocks reset", "Cannot reset memory locked clocks"};
      return {"Memory locked clocks set to " + to, "Cannot set memory locked clocks to " + to};
    case SettingKind::persistence:
      return words_of_switch(setting, "Persistence mode", "persistence mode");
    case SettingKind::compute_mode:
      return {"Compute mode set to " + to, "Cannot set compute mode to " + to};
    case SettingKind::ecc:
      break;
  }
  return words_of_switch(setting, "ECC mode", "ECC mode");
}

Words words_of(const ReadSetting&) {
  return {};
}
Words words_of(const Apply& apply) {
  return words_of(apply.setting);
}
Words words_of(const ClearEcc&) {
  return {"ECC error counters cleared", "Cannot clear ECC error counters"};
}
Words words_of(const ReadEnergy&) {
  return {"Total energy consumption read", "Cannot read total energy consumption"};
}

// A request id comes from a client; this makes it one word on one line.
std::string sanitize_word(std::string text) {
  if (text.size() > kMaxRequestIdBytes) text.resize(kMaxRequestIdBytes);
  std::ranges::replace_if(text, [](char c) { return c <= ' ' || c == 0x7F; }, '?');
  return text;
}

std::string milliseconds(Duration duration) {
  return fmt::format("{:.3f}ms", std::chrono::duration<double, std::milli>(duration).count());
}

std::string fields_of(std::uint32_t index, const CommandRequest& request,
                      const CommandReply& reply) {
  std::string fields = fmt::format("gpu={} time_to_command_done={} overhead={}", index,
                                   milliseconds(reply.done - request.received),
                                   milliseconds(reply.began - request.received));
  if (!request.request_id.empty()) fields += " request_id=" + sanitize_word(request.request_id);
  return fields;
}

}  // namespace

CommandReply execute_command(Backend& backend, const CommandRequest& request,
                             const AdmissionCheck& admit) {
  CommandReply reply = begin_reply(request);
  const auto result = std::visit(
      [&](const auto& command) { return execute(backend, request.device, command, admit, reply); },
      request.command);
  finish_reply(reply, result);
  return reply;
}

CommandReply refused_reply(const CommandRequest& request, const Error& why) {
  CommandReply reply = begin_reply(request);
  finish_reply(reply, why);
  return reply;
}

void log_command(std::uint32_t index, const CommandRequest& request, const CommandReply& reply) {
  if (!reply.called) return;
  const Words words =
      std::visit([](const auto& command) { return words_of(command); }, request.command);
  const std::string fields = fields_of(index, request, reply);
  if (!reply.failure) return log::info("{} [{}]", words.done, fields);
  log::warning("{} [{}]: {}", words.failed, fields, reply.failure->message);
}

}  // namespace gpuyard::driver
