// The public Control: a thin shell over LocalControl that converts the commands.
#include <utility>

#include "base/try.h"
#include "faces/library/driver_source.h"
#include "faces/library/local_control.h"
#include "faces/library/public_device.h"
#include "faces/library/public_monitor.h"
#include "gpuyard/control.h"

namespace gpuyard {
namespace {

using std::chrono::milliseconds;
using InternalCommand = gpuyard::Command;
using PublicControl = v0::Control;

InternalCommand to_internal_command(const PublicControl::SetPersistenceMode& set) {
  return Apply{persistence(set.enabled)};
}
InternalCommand to_internal_command(const PublicControl::SetPowerManagementLimit& set) {
  return Apply{power_limit(set.power_limit_mw)};
}
InternalCommand to_internal_command(const PublicControl::SetGpuLockedClocks& set) {
  return Apply{gpu_clocks(set.min_clock_mhz, set.max_clock_mhz)};
}
InternalCommand to_internal_command(const PublicControl::ResetGpuLockedClocks&) {
  return Apply{unlocked(SettingKind::gpu_clocks)};
}
InternalCommand to_internal_command(const PublicControl::SetMemLockedClocks& set) {
  return Apply{memory_clocks(set.min_clock_mhz, set.max_clock_mhz)};
}
InternalCommand to_internal_command(const PublicControl::ResetMemLockedClocks&) {
  return Apply{unlocked(SettingKind::memory_clocks)};
}
InternalCommand to_internal_command(const PublicControl::GetTotalEnergyConsumption&) {
  return ReadEnergy{};
}
InternalCommand to_internal_command(const PublicControl::SetComputeMode& set) {
  return Apply{compute_mode(static_cast<std::int64_t>(set.mode))};
}
InternalCommand to_internal_command(const PublicControl::SetEccMode& set) {
  return Apply{ecc(set.enabled)};
}
InternalCommand to_internal_command(const PublicControl::ClearEccErrors& clear) {
  return ClearEcc{clear.counter};
}
InternalCommand to_internal_command(const PublicControl::ReadSetting& command) {
  return ReadSetting{command.setting};
}

InternalCommand to_internal_command(const PublicControl::Command& command) {
  return std::visit([](const auto& one) { return to_internal_command(one); }, command);
}

library::CommandContext to_internal_context(const RequestContext& context) {
  library::CommandContext out{context.request_id, BootClock::now()};
  if (context.received) out.received -= std::chrono::steady_clock::now() - *context.received;
  return out;
}

PublicControl::Answer answer_of(const CommandReply& reply) {
  PublicControl::Answer answer{{}, reply.before, reply.after};
  if (reply.energy_mj) answer.energy_mj = static_cast<std::uint64_t>(*reply.energy_mj);
  return answer;
}

Result<PublicControl::Answer> result_of(const CommandReply& reply) {
  if (reply.failure) return *reply.failure;
  return answer_of(reply);
}

Result<PublicControl::Answer> result_of(const Result<CommandReply>& reply) {
  if (!reply) return reply.error();
  return answer_of(*reply);
}

Result<void> void_result(const Result<PublicControl::Answer>& answer) {
  if (!answer) return answer.error();
  return {};
}

// Returns the part of the answer that commands of this kind always have.
template <class Part>
Result<Part> part_of(const Result<PublicControl::Answer>& answer,
                     std::optional<Part> PublicControl::Answer::* part) {
  if (!answer) return answer.error();
  const std::optional<Part>& value = (*answer).*part;
  if (!value) return Error{Errc::internal, "the command was carried out but returned no result"};
  return *value;
}

}  // namespace

struct v0::Control::State {
  library::LocalControl control;
};

struct v0::Control::PendingAnswer::State {
  library::PendingReply reply;
};

v0::Control::PendingAnswer::PendingAnswer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
v0::Control::PendingAnswer::PendingAnswer(PendingAnswer&&) noexcept = default;
v0::Control::PendingAnswer& v0::Control::PendingAnswer::operator=(PendingAnswer&&) noexcept =
    default;
v0::Control::PendingAnswer::~PendingAnswer() = default;

Result<v0::Control::Answer> v0::Control::PendingAnswer::wait(milliseconds at_most) {
  return result_of(state_->reply.wait(at_most));
}

v0::Control::Control(std::shared_ptr<const State> state) : state_(std::move(state)) {}
v0::Control::Control(const Control&) = default;
v0::Control& v0::Control::operator=(const Control&) = default;
v0::Control::~Control() = default;

Result<v0::Control> v0::Control::open(const ControlOptions& options) {
  auto backend =
      library::open_driver(library::choose_nvml(options.library, library::simulated_nvml_path()));
  if (!backend) return std::move(backend).error();
  auto control = GPUYARD_TRY(library::LocalControl::open(*std::move(backend), options.deadline));
  return Control(std::make_shared<State>(State{std::move(control)}));
}

Result<v0::Control> v0::Control::open(const v0::FakeFleet& fleet, const ControlOptions& options) {
  auto control =
      GPUYARD_TRY(library::LocalControl::open(fleet.state_->fleet.backend(), options.deadline));
  return Control(std::make_shared<State>(State{std::move(control)}));
}

std::uint32_t v0::Control::device_count() const {
  return state_->control.device_count();
}

Result<void> v0::Control::send_command_nonblocking(std::uint32_t gpu, const Command& command,
                                                   const RequestContext& context) const {
  return state_->control.send_command_nonblocking(gpu, to_internal_command(command),
                                                  to_internal_context(context));
}

Result<void> v0::Control::send_command(std::uint32_t gpu, const Command& command, Handler handler,
                                       const RequestContext& context) const {
  if (!handler) return send_command_nonblocking(gpu, command, context);
  return state_->control.send_command_nonblocking(
      gpu, to_internal_command(command), to_internal_context(context),
      [handler = std::move(handler)](const CommandReply& reply) { handler(result_of(reply)); });
}

Result<v0::Control::PendingAnswer> v0::Control::send_command(std::uint32_t gpu,
                                                             const Command& command,
                                                             const RequestContext& context) const {
  auto pending =
      state_->control.send_command(gpu, to_internal_command(command), to_internal_context(context));
  if (!pending) return std::move(pending).error();
  return PendingAnswer(
      std::make_unique<PendingAnswer::State>(PendingAnswer::State{*std::move(pending)}));
}

Result<v0::Control::Answer> v0::Control::send_command_blocking(
    std::uint32_t gpu, const Command& command, milliseconds deadline,
    const RequestContext& context) const {
  return result_of(state_->control.send_command_blocking(gpu, to_internal_command(command),
                                                         deadline, to_internal_context(context)));
}

Result<void> v0::Control::set_persistence_mode(std::uint32_t gpu, bool enabled) const {
  return void_result(send_command_blocking(gpu, SetPersistenceMode{enabled}));
}

Result<void> v0::Control::set_power_management_limit(std::uint32_t gpu,
                                                     std::uint32_t power_limit_mw) const {
  return void_result(send_command_blocking(gpu, SetPowerManagementLimit{power_limit_mw}));
}

Result<void> v0::Control::set_gpu_locked_clocks(std::uint32_t gpu, std::uint32_t min_clock_mhz,
                                                std::uint32_t max_clock_mhz) const {
  return void_result(send_command_blocking(gpu, SetGpuLockedClocks{min_clock_mhz, max_clock_mhz}));
}

Result<void> v0::Control::reset_gpu_locked_clocks(std::uint32_t gpu) const {
  return void_result(send_command_blocking(gpu, ResetGpuLockedClocks{}));
}

Result<void> v0::Control::set_mem_locked_clocks(std::uint32_t gpu, std::uint32_t min_clock_mhz,
                                                std::uint32_t max_clock_mhz) const {
  return void_result(send_command_blocking(gpu, SetMemLockedClocks{min_clock_mhz, max_clock_mhz}));
}

Result<void> v0::Control::reset_mem_locked_clocks(std::uint32_t gpu) const {
  return void_result(send_command_blocking(gpu, ResetMemLockedClocks{}));
}

Result<void> v0::Control::set_compute_mode(std::uint32_t gpu, ComputeMode mode) const {
  return void_result(send_command_blocking(gpu, SetComputeMode{mode}));
}

Result<void> v0::Control::set_ecc_mode(std::uint32_t gpu, bool enabled) const {
  return void_result(send_command_blocking(gpu, SetEccMode{enabled}));
}

Result<void> v0::Control::clear_ecc_errors(std::uint32_t gpu, EccCounter counter) const {
  return void_result(send_command_blocking(gpu, ClearEccErrors{counter}));
}

Result<std::uint64_t> v0::Control::get_instant_power_mw(std::uint32_t gpu) const {
  const auto milliwatts = GPUYARD_TRY(state_->control.get_instant_power_mw(gpu, kDefaultDeadline));
  return static_cast<std::uint64_t>(milliwatts);
}

Result<std::uint64_t> v0::Control::get_total_energy_consumption(std::uint32_t gpu) const {
  const auto answer = send_command_blocking(gpu, GetTotalEnergyConsumption{});
  return part_of<std::uint64_t>(answer, &Answer::energy_mj);
}

Result<SettingState> v0::Control::read_setting(std::uint32_t gpu, SettingKind setting) const {
  const auto answer = send_command_blocking(gpu, ReadSetting{setting});
  return part_of<SettingState>(answer, &Answer::before);
}

Result<SettingState> v0::Control::look(std::uint32_t gpu, SettingKind setting) const {
  return read_setting(gpu, setting);
}

void v0::Control::close() const {
  state_->control.close();
}

}  // namespace gpuyard
