// A driver and a disk for tests of control. Both survive the daemon, which can be killed between
// any two of their steps.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/manual_loop_for_tests.h"
#include "core/control/setting_controller.h"

namespace gpuyard::control {

inline constexpr const char* kBoot = "boot-1";

struct Key {
  DeviceId gpu;
  SettingKind kind{};
  auto operator<=>(const Key&) const = default;
};

// The driver and the disk, which exist whether a daemon runs or not. They do one thing at a time: a
// command of the driver, or a commit to the disk. `commits_left` counts down to the moment when the
// daemon is killed.
struct ControlFixture {
  std::map<Key, SettingValue> values;  // of the driver
  SettingValue allowed{100'000, 700'000};
  std::vector<std::string> writes;  // all that reached the driver, in order: "GPU-0 300 W"
  std::map<Key, ManagedSetting> disk;
  std::vector<AuditEntry> audit;

  std::optional<Error> driver_fails = {};  // the error of every write
  DeviceId fails_only = {};                // only writes of this GPU fail, if not empty
  std::optional<Error> disk_fails = {};
  bool disk_reads = true;
  bool has_journal = false;   // a transaction can be recorded at once
  bool disk_is_slow = false;  // the stored state is read when the test calls read_now
  std::function<void()> read_now = {};
  // The number of commits that succeed before the daemon is killed; negative: all. The daemon is
  // killed at the next commit, before the disk has it or right after (fatal_commit_counts).
  int commits_left = -1;
  bool fatal_commit_counts = false;
  bool killed = false;

  static ControlFixture with_gpus(int count) {
    ControlFixture fixture;
    for (int i = 0; i < count; ++i) fixture.add("GPU-" + std::to_string(i));
    return fixture;
  }
  void add(const DeviceId& gpu) {
    values[{gpu, SettingKind::power_limit}] = {700'000, 700'000};
    values[{gpu, SettingKind::gpu_clocks}] = {};
    values[{gpu, SettingKind::memory_clocks}] = {};
    values[{gpu, SettingKind::persistence}] = {0, 0};
    values[{gpu, SettingKind::compute_mode}] = {0, 0};
    values[{gpu, SettingKind::ecc}] = {1, 1};
  }
  // Reloads the driver: it has its default values again.
  void reload_driver() {
    for (auto& [key, value] : values) {
      if (key.kind == SettingKind::power_limit) value = {700'000, 700'000};
      if (!can_be_read(key.kind)) value = {};
    }
  }
  SettingValue& power(const DeviceId& gpu) { return values[{gpu, SettingKind::power_limit}]; }

  SettingState read_state(const DeviceId& gpu, SettingKind kind) const {
    SettingState state;
    if (can_be_read(kind)) state.now = values.at({gpu, kind});
    if (kind == SettingKind::power_limit) {
      state.by_default = SettingValue{700'000, 700'000};
      state.allowed = allowed;
    }
    return state;
  }

  // Carries out a command as a worker of the driver-host does.
  CommandReply execute(const CommandRequest& request) {
    CommandReply reply;
    reply.id = request.id;
    reply.device = request.device;
    if (const auto* look_at = std::get_if<ReadSetting>(&request.command)) {
      reply.before = read_state(request.device, look_at->kind);
    } else if (const auto* apply = std::get_if<Apply>(&request.command)) {
      write(*apply, reply);
    }
    return reply;
  }

  void write(const Apply& apply, CommandReply& reply) {
    const Setting& setting = apply.setting;
    reply.before = read_state(reply.device, setting.kind);
    const auto fail = [&](const Error& why) { reply.failure = Error{why.code, why.text()}; };
    if (auto possible = check_setting(setting, *reply.before); !possible)
      return fail(possible.error());
    const bool other =
        reply.before->now && !apply.expected.empty() &&
        std::ranges::find(apply.expected, *reply.before->now) == apply.expected.end();
    if (other) return fail({Errc::conflict, "another value is there"});
    reply.called = true;
    const bool ours = fails_only.empty() || fails_only == reply.device;
    if (driver_fails && ours) return fail(*driver_fails);
    values[{reply.device, setting.kind}] = setting.value.value_or(SettingValue{});
    writes.push_back(reply.device + " " + text_of(setting));
    reply.after = read_state(reply.device, setting.kind);
  }

  // Returns false if the daemon is killed at this commit.
  bool commit(const ControlTransaction& entry) {
    const bool fatal = commits_left == 0;
    if (commits_left >= 0) --commits_left;
    if (!fatal || fatal_commit_counts) keep(entry);
    killed = killed || fatal;
    return !fatal;
  }
  void keep(const ControlTransaction& entry) {
    if (entry.put) disk[{entry.put->gpu, entry.put->kind}] = *entry.put;
    if (entry.removed) disk.erase({entry.removed->gpu, entry.removed->kind});
    if (entry.audit) audit.push_back(*entry.audit);
  }
};

// One run of a daemon.
class Daemon final : private CommandPort, private ControlStorage {
 public:
  explicit Daemon(ControlFixture& fixture, ControlPolicy policy = {true, false},
                  std::string boot = kBoot)
      : world_(fixture), control_(loop, *this, *this, policy, std::move(boot), "e") {
    world_.killed = false;
    control_.start();
    settle();
  }

  // Starts a driver-host, which sends Hello with all GPUs.
  void start_driver_host() {
    Inventory fleet;
    for (const auto& [key, value] : world_.values) {
      if (!fleet.devices.empty() && fleet.devices.back().id == key.gpu) continue;
      DeviceInfo device;
      device.id = device.uuid = key.gpu;
      device.index = static_cast<std::uint32_t>(fleet.devices.size());
      fleet.devices.push_back(device);
    }
    has_driver_host_ = true;
    control_.on_inventory(fleet);
    settle();
  }
  void lose_host() {
    has_driver_host_ = false;
    waiting_.clear();
    control_.on_host_down();
    control_.on_setter_down();
    settle();
  }

  // Runs the loop until nothing more happens, or the daemon is killed.
  void settle() {
    for (int i = 0; i < 1000 && !world_.killed; ++i) loop.run_posted();
  }
  void pass(Duration time) {
    loop.advance(time);
    settle();
  }

  std::vector<ChangeResult> ask(const ChangeRequest& request) {
    // Shared: the callback of a daemon that is killed never runs, or only at its end.
    const auto result =
        std::make_shared<Result<SettingController::Changes>>(SettingController::Changes());
    control_.submit(request, [result](const Result<SettingController::Changes>& changes) {
      *result = changes;
    });
    settle();
    error = *result ? std::nullopt : std::optional(result->error());
    return *result ? **result : SettingController::Changes();
  }
  ChangeResult put(const std::string& owner, const Setting& setting,
                   std::optional<Duration> lasts = {}, const DeviceId& gpu = "GPU-0") {
    return only(ask({{owner, false, "r", loop.now()}, {gpu}, SetValue{setting, lasts}}));
  }
  ChangeResult restore(const std::string& owner, SettingKind kind = SettingKind::power_limit,
                       const DeviceId& gpu = "GPU-0") {
    return only(ask({{owner, false, "r", loop.now()}, {gpu}, Restore{kind}}));
  }
  void stop() {
    const auto done = std::make_shared<bool>(false);
    control_.stop([done] { *done = true; });
    for (int i = 0; i < 20 && !*done && !world_.killed; ++i) pass(std::chrono::milliseconds(100));
  }

  SettingController& control() { return control_; }
  std::optional<Error> error;  // of the last request as a whole
  bool hold_replies = false;   // the driver answers at release_replies()
  DeviceId hold_only = {};     // only this GPU is held, if not empty
  void release_replies() {
    hold_replies = false;
    for (const CommandRequest& one : std::exchange(waiting_, {})) answer(one);
    settle();
  }
  std::size_t waiting() const { return waiting_.size(); }
  Result<void> resettable = {};
  std::vector<DeviceId> resets;
  std::size_t saves = 0;
  std::size_t durable_saves = 0;
  ManualLoop loop;

 private:
  static ChangeResult only(const std::vector<ChangeResult>& changes) {
    return changes.empty() ? ChangeResult{} : changes.front();
  }

  bool send(const CommandRequest& request) override {
    if (!has_driver_host_) return false;
    if (hold_replies && (hold_only.empty() || hold_only == request.device)) {
      waiting_.push_back(request);
    } else {
      answer(request);
    }
    return true;
  }
  void answer(const CommandRequest& request) {
    if (world_.killed) return;
    loop.post([this, reply = world_.execute(request)] {
      if (has_driver_host_ && !world_.killed) control_.on_reply(reply);
    });
  }
  Result<void> check_reset(const DeviceInfo&) override { return resettable; }
  void reset_gpu(const DeviceInfo& gpu, std::function<void(const Result<void>&)> done) override {
    resets.push_back(gpu.id);
    lose_host();
    world_.power(gpu.id) = {700'000, 700'000};
    loop.post([this, done] {
      done({});
      start_driver_host();
    });
  }

  bool load(std::function<void(Result<std::vector<ManagedSetting>>)> loaded) override {
    auto read = [this, loaded = std::move(loaded)] {
      if (!world_.disk_reads) return loaded(Error{Errc::unavailable, "no disk"});
      std::vector<ManagedSetting> all;
      for (const auto& [key, managed] : world_.disk) all.push_back(managed);
      loaded(all);
    };
    if (world_.disk_is_slow) {
      world_.read_now = std::move(read);
    } else {
      loop.post(std::move(read));
    }
    return true;
  }
  bool record(const ControlTransaction& entry, OnSaved kept) override {
    if (!world_.has_journal || world_.disk_fails) return false;
    ++saves;
    const bool goes_on = !world_.killed && world_.commit(entry);
    if (goes_on) loop.post([kept = std::move(kept)] { kept({}); });
    return true;
  }
  bool save(ControlTransaction entry, CommitTiming timing, OnSaved kept) override {
    ++saves;
    if (timing == CommitTiming::durable) ++durable_saves;
    loop.post([this, entry = std::move(entry), kept] {
      if (world_.killed) return;
      if (world_.disk_fails) return kept(*world_.disk_fails);
      if (world_.commit(entry)) kept({});
    });
    return true;
  }
  bool query_audit(AuditQuery, std::function<void(Result<std::vector<AuditEntry>>)>) override {
    return false;
  }
  std::vector<std::string> notes() const override { return {}; }

  ControlFixture& world_;
  bool has_driver_host_ = false;
  std::deque<CommandRequest> waiting_;
  SettingController control_;
};

}  // namespace gpuyard::control
