#include "core/control/setting_controller.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/record.h"
#include "base/try.h"

namespace gpuyard::control {
namespace {

struct SettingsQuery {
  std::vector<SettingReading> all;
  std::size_t missing = 0;
  std::function<void(const std::vector<SettingReading>&)> on_done;
  Subscription timeout_timer;

  void finish() {
    timeout_timer.reset();
    if (const auto callback = std::exchange(on_done, nullptr)) callback(all);
  }
};

}  // namespace

SettingController::SettingController(Loop& loop, CommandPort& command_port, ControlStorage& storage,
                                     ControlPolicy policy, std::string boot_id, std::string epoch)
    : loop_(loop),
      command_port_(command_port),
      storage_(storage),
      policy_(policy),
      environment_{
          loop,
          command_port,
          storage,
          std::move(boot_id),
          0,
          [this](const QueuedChange& change) { return try_start(change); },
          [this](const DeviceInfo& gpu, const QueuedChange& queued_change,
                 const std::optional<ChangeResult>& result,
                 TimePoint started_at) { on_finished(gpu, queued_change, result, started_at); },
          [this](const DeviceInfo& gpu, bool dry_run, GpuResetter::OnDone on_done) {
            resetter_.begin(
                gpu, dry_run, [this, id = gpu.id] { return others_idle(id); }, std::move(on_done));
          }},
      reader_(environment_),
      stored_(loop, storage,
              {.on_loaded =
                   [this](std::vector<ManagedSetting> saved) {
                     for (ManagedSetting& managed : saved) recover_setting(std::move(managed));
                     schedule_expiry();
                   },
               .submit = [this](const ChangeRequest& request,
                                const OnChanges& on_changes) { submit(request, on_changes); }}),
      trail_(loop, storage),
      change_limiter_(static_cast<double>(policy.changes_a_minute)),
      operations_(std::move(epoch)),
      resetter_(loop, command_port) {}

void SettingController::start() {
  stored_.start();
}

void SettingController::recover_setting(ManagedSetting managed) {
  rebase_to_boot(managed, environment_.boot_id, loop_.now(), loop_.wall());
  // The value may have been written or not: a read has to show it.
  if (managed.replaced) managed.status = SettingStatus::owed;
  const auto queue = queues_.find(managed.gpu);
  if (queue == queues_.end()) return absent_settings_[managed.gpu].push_back(std::move(managed));
  const SettingKind kind = managed.kind;
  queue->second->settings().recover(std::move(managed));
  if (open_gpus_.contains(queue->first) && policy_.enabled)
    queue->second->enqueue_internal(ReconcileSetting{kind});
}

void SettingController::on_inventory(const Inventory& inventory) {
  for (const DeviceInfo& device : inventory.devices) {
    if (device.uuid.empty()) continue;
    auto& queue = queues_[device.id];
    if (queue) {
      queue->update_device(device);
    } else {
      queue = std::make_unique<GpuQueue>(environment_, device);
      if (on_stopped_) queue->close();
    }
    if (auto absent = absent_settings_.extract(device.id)) {
      for (ManagedSetting& managed : absent.mapped()) queue->settings().recover(std::move(managed));
    }
    if (device.fault) {
      open_gpus_.erase(device.id);
    } else if (open_gpus_.insert(device.id).second && policy_.enabled) {
      queue->on_driver_back();
    }
  }
  schedule_expiry();
}

void SettingController::refuse_unauthorized() {
  for (const auto& [id, queue] : queues_) queue->refuse_unauthorized();
}

void SettingController::on_reply(const CommandReply& reply) {
  if (reader_.on_reply(reply)) return;
  const auto queue = queues_.find(reply.device);
  if (queue != queues_.end()) queue->second->on_reply(reply);
}

void SettingController::on_host_down() {
  open_gpus_.clear();
  reader_.on_host_down();
  for (const auto& [id, queue] : queues_) queue->on_host_down();
}

void SettingController::on_setter_down() {
  for (const auto& [id, queue] : queues_) queue->on_setter_down();
}

void SettingController::on_setter_back() {
  for (const auto& [id, queue] : queues_) queue->on_setter_back();
}

Result<void> SettingController::check_submission(const ChangeRequest& request) {
  if (!policy_.enabled) {
    return Error{Errc::denied, "changing GPUs is disabled",
                 "[control] enabled is false in the daemon's configuration"};
  }
  if (request.force && !request.requester.admin) {
    return Error{Errc::denied,
                 "force is only for administrators: root, or the user gpuyard runs as"};
  }
  GPUYARD_TRY(check_request(request));
  const bool restores = std::holds_alternative<Restore>(request.action);
  const bool sets = !restores && !request.dry_run && !std::holds_alternative<Reset>(request.action);
  const auto change_error = command_port_.change_error();
  if (sets && change_error && change_error->code == Errc::denied) return *change_error;
  const auto wait = request.requester.admin || restores
                        ? std::nullopt
                        : change_limiter_.take(request.requester.quota_group(), loop_.now());
  if (wait) {
    return Error{Errc::busy,
                 fmt::format("the limit is {} changes per user per minute; try again in {} s",
                             policy_.changes_a_minute,
                             std::chrono::ceil<std::chrono::seconds>(*wait).count())};
  }
  if (!stored_.is_loaded()) {
    return Error{Errc::unavailable,
                 stored_.error() ? "the stored settings cannot be read: " + stored_.error()->text()
                                 : "gpuyard is still starting; try again in a second"};
  }
  return {};
}

Result<SettingController::PreparedChanges> SettingController::prepare(
    const ChangeRequest& request) {
  auto allowed = check_submission(request);
  PreparedChanges prepared;
  for (const DeviceId& gpu : request.gpus) {
    if (!allowed) break;
    const auto queue = queues_.find(gpu);
    if (queue == queues_.end()) {
      allowed = Error{Errc::not_found, fmt::format("GPU {} not found", gpu)};
      break;
    }
    for (QueuedChange& change : expand(request, queue->second->settings().all())) {
      prepared.emplace_back(queue->second.get(), std::move(change));
    }
  }
  if (allowed && prepared.empty()) {
    allowed = Error{Errc::not_found, "you have no settings on these GPUs"};
  }
  if (!allowed) {
    trail_.record_refusal(request.requester, text_of(task_of(request.action)), allowed.error());
    return std::move(allowed).error();
  }
  for (auto& [queue, change] : prepared) {
    Operation operation{.action = text_of(change.task),
                        .requested_by = change.requester.owner,
                        .request_id = change.requester.request_id,
                        .received = change.requester.received,
                        .requested_at = loop_.wall(),
                        .result = {.gpu = queue->device().id,
                                   .index = queue->device().index,
                                   .kind = kind_of(change.task)}};
    change.operation_id = operations_.add(std::move(operation)).id;
  }
  return prepared;
}

void SettingController::submit(const ChangeRequest& request, const OnChanges& on_changes) {
  if (policy_.enabled && stored_.hold(request, on_changes)) return;
  auto prepared = prepare(request);
  if (!prepared) {
    loop_.post([on_changes, error = prepared.error()] { on_changes(error); });
    return;
  }
  ChangeCollector::Rollback rollback;
  if (request.atomic) {
    rollback = lifetime_.guard(
        [this, request](const ChangeResult& result, std::vector<SettingClaim> before,
                        const std::function<void(const ChangeResult&)>& on_done) {
          roll_back(request, result, std::move(before), on_done);
        });
  }
  const auto collector =
      std::make_shared<ChangeCollector>(loop_, prepared->size(), rollback, on_changes);
  std::size_t index = 0;
  for (auto& [queue, change] : *prepared) {
    change.on_done = collector->result_callback(index++);
    queue->submit(std::move(change));
  }
  collector->begin_wait(kRequestTimeout);
}

Result<SettingController::Changes> SettingController::submit_async(const ChangeRequest& request) {
  if (request.atomic) {
    return Error{Errc::invalid, "an atomic change needs a client that waits for the result"};
  }
  auto prepared = GPUYARD_TRY(prepare(request));
  Changes changes;
  for (auto& [queue, change] : prepared) {
    const std::string operation_id = change.operation_id;
    queue->submit(std::move(change));
    changes.push_back(operations_.find(operation_id)->result);
  }
  return changes;
}

void SettingController::roll_back(const ChangeRequest& request, const ChangeResult& result,
                                  std::vector<SettingClaim> before,
                                  const std::function<void(const ChangeResult&)>& on_done) {
  const auto queue = queues_.find(result.gpu);
  if (queue == queues_.end() || !result.kind) return on_done(result);
  RollBackChange rollback{*result.kind, std::move(before), std::nullopt, request.force};
  if (const auto* set_value = std::get_if<SetValue>(&request.action))
    rollback.new_value = set_value->setting.value;
  queue->second->submit(
      {.requester = request.requester,
       .task = std::move(rollback),
       .on_done = [on_done](const ChangeResult& rollback_result, const std::vector<SettingClaim>&) {
         on_done(rollback_result);
       }});
}

bool SettingController::try_start(const QueuedChange& change) {
  if (resetter_.is_active()) return false;
  operations_.start(change.operation_id);
  return true;
}

void SettingController::on_finished(const DeviceInfo& gpu, const QueuedChange& queued_change,
                                    const std::optional<ChangeResult>& result,
                                    TimePoint started_at) {
  if (result) {
    operations_.finish(queued_change.operation_id, *result, loop_.now());
    const Operation* operation = operations_.find(queued_change.operation_id);
    if (on_operation_ && operation != nullptr) on_operation_(*operation);
    if (result->outcome != ChangeOutcome::planned)
      trail_.record_change(gpu, queued_change, *result, started_at);
    // The disk may be full, for example: expiry is not tried again at once.
    const bool late = std::holds_alternative<Expire>(queued_change.task) && result->error;
    if (late) earliest_expiry_at_ = loop_.now() + GpuQueue::kReconcileDelay;
  }
  resetter_.retry();
  if (std::holds_alternative<Reset>(queued_change.task)) {
    for (const auto& [id, queue] : queues_) queue->start_next();
  }
  schedule_expiry();
  if (on_stopped_ && others_idle("")) shutdown_timer_ = loop_.call_at(loop_.now(), on_stopped_);
}

bool SettingController::others_idle(const DeviceId& gpu) const {
  return std::ranges::all_of(queues_, [&](const auto& one) {
    return one.first == gpu || (on_stopped_ ? one.second->empty() : one.second->is_idle());
  });
}

// Nothing expires while control is off: settings in force stay until it is on again.
void SettingController::schedule_expiry() {
  if (!policy_.enabled) return;
  std::optional<TimePoint> first;
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, managed] : queue->settings().all()) {
      const auto next = next_expiry(managed);
      if (next && (!first || *next < *first)) first = next;
    }
  }
  if (first) first = std::max(*first, earliest_expiry_at_);
  expiry_timer_ = first ? loop_.call_at(*first, [this] { expire_claims(); }) : Subscription();
}

void SettingController::expire_claims() {
  const TimePoint now = loop_.now();
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, managed] : queue->settings().all()) {
      const auto next = next_expiry(managed);
      if (next && *next <= now) queue->enqueue_internal(Expire{kind});
    }
  }
}

void SettingController::stop(std::function<void()> on_done) {
  on_stopped_ = [this, on_done = std::move(on_done)] {
    const bool first = std::exchange(on_stopped_, nullptr) != nullptr;
    shutdown_timer_.reset();
    for (const auto& [id, queue] : queues_) queue->abandon();
    if (first) on_done();
  };
  stored_.release();
  resetter_.close();
  for (const auto& [id, queue] : queues_) {
    if (policy_.enabled && policy_.restore_on_stop) queue->suspend();
    queue->close();
  }
  shutdown_timer_ =
      loop_.call_at(loop_.now() + (others_idle("") ? Duration(0) : kShutdownGrace), on_stopped_);
}

const ManagedSetting* SettingController::managed_setting(const DeviceId& gpu,
                                                         SettingKind kind) const {
  const auto queue = queues_.find(gpu);
  return queue == queues_.end() ? nullptr : queue->second->settings().find(kind);
}

std::vector<std::string> SettingController::notes() const {
  auto notes = storage_.notes();
  for (std::string& note : command_port_.notes()) notes.push_back(std::move(note));
  if (const auto& error = stored_.error())
    notes.push_back("the stored settings cannot be read: " + error->text());
  return notes;
}

void read_settings(Loop& loop, SettingController& control, const std::vector<DeviceId>& gpus,
                   Duration timeout,
                   std::function<void(const std::vector<SettingReading>&)> on_done) {
  const auto query = std::make_shared<SettingsQuery>();
  query->on_done = std::move(on_done);
  for (const DeviceId& gpu : gpus) {
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<SettingKind>>(
        [&](auto kind) { query->all.push_back({gpu, kind.value}); });
  }
  query->missing = query->all.size() + 1;
  const auto one_less = [query] {
    if (--query->missing == 0) query->finish();
  };
  for (std::size_t i = 0; i < query->all.size(); ++i) {
    control.read_setting(query->all[i].gpu, query->all[i].kind,
                         [query, one_less, i](const Result<SettingState>& state) {
                           query->all[i].state = state;
                           one_less();
                         });
  }
  // Weak: the reads in progress own the query, and a timer must not.
  query->timeout_timer = loop.call_after(timeout, [weak = std::weak_ptr(query)] {
    if (const auto late = weak.lock()) late->finish();
  });
  loop.post(one_less);
}

}  // namespace gpuyard::control
