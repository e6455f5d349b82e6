#include "daemon/control_adapter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::daemon {
namespace {

constexpr Duration kCloseTimeout = std::chrono::seconds(1);

control::ControlPolicy policy_of(const config::Config& config) {
  return {config.control.enabled,
          config.control.on_stop == config::Config::Control::OnStop::restore,
          config.shares.changes_a_minute};
}

std::string expand_placeholders(std::string text, const DeviceInfo& gpu) {
  const std::pair<std::string_view, std::string> names[] = {
      {"{index}", std::to_string(gpu.index)}, {"{uuid}", gpu.uuid}, {"{pci}", gpu.pci_address}};
  for (const auto& [name, value] : names) text = replace_all(std::move(text), name, value);
  return text;
}

std::string pid_list(const std::vector<GpuProcess>& processes) {
  constexpr std::size_t kMaxNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(processes.size(), kMaxNamed); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", processes[i].pid);
  }
  return processes.size() > kMaxNamed ? text + ", ..." : text;
}

Error reset_error(const CommandOutcome& outcome) {
  return {Errc::internal, fmt::format("the reset command {}: {}", outcome.text(),
                                      outcome.output.empty() ? "no output" : trim(outcome.output))};
}

}  // namespace

ControlAdapter::ControlAdapter(Loop& loop, driver::DriverHostClient& host,
                               const telemetry::Telemetry& telemetry, store::StateStore& state,
                               const config::Config& config, std::string epoch,
                               driver::DriverHostClient::Spawn setter, std::string version)
    : loop_(loop),
      host_(host),
      telemetry_(telemetry),
      config_(config.control),
      state_directory_(config.state.directory),
      runtime_directory_(parent_directory(config.server.socket)),
      db_(loop, state),
      control_(loop, *this, db_, policy_of(config), boot_id(), std::move(epoch)) {
  if (!config_.enabled) return;
  setter_.emplace(
      loop, std::move(setter), std::move(version),
      SetterListener{[this](const CommandReply& reply) { control_.on_reply(reply); },
                     [this] { control_.on_setter_back(); }, [this] { control_.on_setter_down(); }});
}

void ControlAdapter::start(std::function<void(const Error&)> on_no_journal) {
  use_journal(std::move(on_no_journal));
  control_.start();
  if (setter_) setter_->start();
}

// A daemon that changes nothing takes over what an earlier one has left, too.
void ControlAdapter::use_journal(std::function<void(const Error&)> on_no_journal) {
  std::unique_ptr<store::ControlJournal> left_over;
  const auto id = store::state_id(state_directory_);
  if (id && store::ControlJournal::exists(runtime_directory_, *id)) {
    auto opened = store::ControlJournal::open(runtime_directory_, *id, boot_id());
    if (opened) {
      left_over = *std::move(opened);
    } else {
      log::warning("settings that the last daemon changed may not be known: {}",
                   opened.error().text());
    }
  }
  store::ControlDb::BeginJournal begin;
  if (config_.enabled) {
    begin = [this, on_no_journal = std::move(on_no_journal)] {
      auto journal = begin_journal();
      if (journal) return *std::move(journal);
      on_no_journal(journal.error());
      return std::unique_ptr<store::ControlJournal>();
    };
  }
  db_.use_journal(std::move(left_over), std::move(begin));
}

Result<std::unique_ptr<store::ControlJournal>> ControlAdapter::begin_journal() {
  const auto id = GPUYARD_TRY(store::renew_state_id(state_directory_));
  return store::ControlJournal::open(runtime_directory_, id, boot_id());
}

void ControlAdapter::stop(std::function<void()> on_done) {
  control_.stop([this, on_done = std::move(on_done)] { db_.close(kCloseTimeout, on_done); });
}

// A command that only reads needs no right, and works with control disabled.
bool ControlAdapter::send(const CommandRequest& request) {
  if (!is_change(request.command)) return host_.send_command(request);
  return setter_ && setter_->submit(request);
}

std::optional<Error> ControlAdapter::change_error() const {
  return setter_ ? setter_->error() : std::nullopt;
}

std::vector<std::string> ControlAdapter::notes() const {
  std::vector<std::string> notes;
  if (const auto why = change_error()) notes.push_back("no GPU can be changed now: " + why->text());
  for (const auto& [gpu, text] : bounds_errors_) notes.push_back(text);
  return notes;
}

// A bound that the driver's range does not contain is shown as long as it is configured.
void ControlAdapter::check_gpu_bounds(const DeviceInfo& gpu) {
  const auto policy = setter_policy(config_);
  if (!setter_ || gpu.fault || (!policy.lowest_mw && !policy.highest_mw)) return;
  control_.read_setting(
      gpu.id, SettingKind::power_limit,
      [this, policy, id = gpu.id, index = gpu.index](const Result<SettingState>& state) {
        if (!state || !state->allowed) return;
        const std::string text = driver::unusable_bounds(policy, *state->allowed);
        bounds_errors_.erase(id);
        if (!text.empty()) bounds_errors_[id] = fmt::format("GPU {}: {}", index, text);
      });
}

// Simulated GPUs are reset by their own command, unless the user configured another.
std::vector<std::string> ControlAdapter::reset_command() const {
  const bool simulated = telemetry_.latest()->driver.info.simulated;
  if (!simulated || config_.reset_command != config::Config::Control{}.reset_command) {
    return config_.reset_command;
  }
  return {"/proc/self/exe", "sim", "reset", "--as-driver", "--gpu", "{uuid}"};
}

Result<void> ControlAdapter::check_reset(const DeviceInfo& gpu) {
  if (config_.reset_command.empty()) {
    return Error{Errc::unsupported,
                 "no reset_command is configured under [control]: NVML itself cannot reset a GPU"};
  }
  const auto latest = telemetry_.latest();
  const auto device =
      std::ranges::find_if(latest->devices, [&](const auto& one) { return one.info.id == gpu.id; });
  if (device == latest->devices.end()) return {};
  const auto* const processes = device->sample.listed_processes();
  if (processes == nullptr) {
    // A lost GPU lists no processes, and a reset may be what it needs.
    if (device->condition != DeviceCondition::responsive) return {};
    return Error{Errc::unavailable,
                 fmt::format("cannot determine now whether processes are using GPU {}", gpu.index)};
  }
  if (processes->empty()) return {};
  return Error{Errc::conflict, fmt::format("GPU {} cannot be reset", gpu.index),
               "it is in use by PID " + pid_list(*processes)};
}

void ControlAdapter::reset_gpu(const DeviceInfo& gpu, OnDone on_done) {
  log::warning("resetting GPU {}; all GPUs are unavailable until it is done", gpu.index);
  close_driver([this, gpu, on_done = std::move(on_done)](const Result<void>& closed) {
    if (closed) return run_reset_command(gpu, on_done);
    open_driver();
    on_done(Error(closed.error()).in("nothing was reset"));
  });
}

// None of our processes may have a GPU open while it is reset.
void ControlAdapter::close_driver(std::function<void(Result<void>)> on_closed) {
  driver_closed_ = true;
  host_.pause([this, on_closed = std::move(on_closed)](const Result<void>& ended) {
    if (!ended || !setter_) return on_closed(ended);
    setter_->pause(on_closed);
  });
}

void ControlAdapter::open_driver() {
  driver_closed_ = false;
  host_.resume();
  if (setter_) setter_->resume();
}

void ControlAdapter::run_reset_command(const DeviceInfo& gpu, const OnDone& on_done) {
  CommandOptions options;
  for (const std::string& argument : reset_command())
    options.argv.push_back(expand_placeholders(argument, gpu));
  options.timeout = std::chrono::seconds(config_.reset_timeout_s);
  reset_run_.emplace(loop_, options, [this, gpu, on_done](const CommandOutcome& outcome) {
    const std::string line = fmt::format("GPU {}: the reset command {}", gpu.index, outcome.text());
    outcome.succeeded() ? log::info("{}", line) : log::warning("{}", line);
    const Result<void> result =
        outcome.succeeded() ? Result<void>() : Result<void>(reset_error(outcome));
    // The caller may go on once the GPU is there again.
    on_reset_done_ = [on_done, result] { on_done(result); };
    reset_timer_ =
        loop_.call_after(driver::DriverHostClient::kHelloTimeout, [this] { end_reset(); });
    open_driver();
  });
}

void ControlAdapter::on_inventory(const Inventory& inventory) {
  // The restore of settings should not wait for the setter's next retry.
  if (setter_) setter_->hurry();
  control_.on_inventory(inventory);
  for (const DeviceInfo& gpu : inventory.devices) check_gpu_bounds(gpu);
  end_reset();
}

// The driver-host may come back with another driver, so the setter reloads the driver, too.
void ControlAdapter::on_host_down(const std::string& why) {
  control_.on_host_down();
  if (setter_ && !driver_closed_) setter_->renew(why);
}

void ControlAdapter::end_reset() {
  reset_timer_.reset();
  if (const auto on_done = std::exchange(on_reset_done_, nullptr)) on_done();
}

}  // namespace gpuyard::daemon
