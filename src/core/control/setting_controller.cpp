#include "core/control/setting_controller.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/control/change_request.h"

namespace gpuyard::control {

SettingController::SettingController(Loop& loop, CommandPort& commander, ControlStorage& archive,
                                     ControlPolicy policy, std::string boot_id, std::string epoch)
    : loop_(loop),
      command_port_(commander),
      storage_(archive),
      policy_(policy),
      environment_{loop,
                   commander,
                   archive,
                   std::move(boot_id),
                   0,
                   [this](const QueuedChange& order) { return try_start(order); },
                   [this](const DeviceInfo& gpu, const QueuedChange& order,
                          const std::optional<ChangeResult>& change,
                          TimePoint began) { on_finished(gpu, order, change, began); },
                   [this](const DeviceInfo& gpu, bool dry_run, GpuResetter::OnDone then) {
                     resetter_.begin(
                         gpu, dry_run, [this, id = gpu.id] { return others_idle(id); },
                         std::move(then));
                   }},
      trail_(loop, archive),
      change_limiter_(static_cast<double>(policy.changes_a_minute)),
      operations_(std::move(epoch)),
      resetter_(loop, commander) {}

void SettingController::start() {
  early_timer_ = loop_.call_after(kLoadTimeout, [this] { submit_early_requests(); });
  load();
}

void SettingController::load() {
  const bool asked = storage_.load(lifetime_.guard(
      [this](Result<std::vector<ManagedSetting>> kept) { on_loaded(std::move(kept)); }));
  if (!asked) load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
}

void SettingController::on_loaded(Result<std::vector<ManagedSetting>> kept) {
  if (kept) {
    load_error_.reset();
    loaded_ = true;
    for (ManagedSetting& holding : *kept) recover_setting(std::move(holding));
    schedule_expiry();
  } else {
    load_error_ = kept.error();
    load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
  }
  submit_early_requests();
}

// Answers the early requests. Later ones no longer wait for the disk.
void SettingController::submit_early_requests() {
  early_timer_.reset();
  is_waiting_for_load_ = false;
  for (const auto& [request, heard] : std::exchange(early_requests_, {})) submit(request, heard);
}

void SettingController::recover_setting(ManagedSetting holding) {
  rebase_to_boot(holding, environment_.boot_id, loop_.now(), loop_.wall());
  // The value may have been written or not: a look has to tell.
  if (holding.replaced) holding.status = SettingStatus::owed;
  const auto queue = queues_.find(holding.gpu);
  if (queue == queues_.end()) return absent_settings_[holding.gpu].push_back(std::move(holding));
  const SettingKind kind = holding.kind;
  queue->second->recover_setting(std::move(holding));
  if (open_gpus_.contains(queue->first) && policy_.enabled)
    queue->second->enqueue_internal(ReconcileSetting{kind});
}

void SettingController::on_inventory(const Inventory& fleet) {
  for (const DeviceInfo& device : fleet.devices) {
    if (device.uuid.empty()) continue;
    auto& queue = queues_[device.id];
    if (queue) {
      queue->update_device(device);
    } else {
      queue = std::make_unique<GpuQueue>(environment_, device);
      if (on_stopped_) queue->close();
    }
    if (auto home = absent_settings_.extract(device.id)) {
      for (ManagedSetting& holding : home.mapped()) queue->recover_setting(std::move(holding));
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
  if (auto look = pending_reads_.extract(reply.id)) {
    const auto seen = reply.failure ? Result<SettingState>(reply.failure->error())
                                    : Result<SettingState>(reply.before.value_or(SettingState{}));
    for (const OnSettingRead& told : look.mapped().callbacks) told(seen);
    return;
  }
  const auto queue = queues_.find(reply.device);
  if (queue != queues_.end()) queue->second->on_reply(reply);
}

void SettingController::on_host_down() {
  open_gpus_.clear();
  for (const auto& [id, look] : std::exchange(pending_reads_, {})) {
    for (const OnSettingRead& told : look.callbacks) {
      told(Error{Errc::unavailable, "the driver-host exited before responding"});
    }
  }
  for (const auto& [id, queue] : queues_) queue->on_host_down();
}

void SettingController::on_setter_down() {
  for (const auto& [id, queue] : queues_) queue->on_setter_down();
}

void SettingController::on_setter_back() {
  for (const auto& [id, queue] : queues_) queue->on_setter_back();
}

// A look that finds the same one under way shares its answer, so that looks cannot fill a GPU's
// queue.
void SettingController::read_setting(const DeviceId& gpu, SettingKind kind, OnSettingRead seen) {
  for (auto& [id, look] : pending_reads_) {
    if (look.gpu != gpu || look.kind != kind) continue;
    if (look.callbacks.size() >= kMaxReadCallers)
      return seen(Error{Errc::busy, "too many requests for this setting"});
    return look.callbacks.push_back(std::move(seen));
  }
  const std::uint64_t id = ++environment_.last_command_id;
  const bool asked = command_port_.send({id, gpu, ReadSetting{kind}, "", loop_.now()});
  if (!asked) return seen(Error{Errc::busy, "the driver-host is unavailable or too busy"});
  pending_reads_[id] = {gpu, kind, {std::move(seen)}};
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
  if (auto checked = check_request(request); !checked) return checked;
  const bool puts_back = std::holds_alternative<Restore>(request.action);
  const bool sets =
      !puts_back && !request.dry_run && !std::holds_alternative<Reset>(request.action);
  const auto obstacle = command_port_.change_error();
  if (sets && obstacle && obstacle->code == Errc::denied) return *obstacle;
  const auto wait = request.requester.admin || puts_back
                        ? std::nullopt
                        : change_limiter_.take(request.requester.quota_group(), loop_.now());
  if (wait) {
    return Error{Errc::busy,
                 fmt::format("the limit is {} changes per user per minute; try again in {} s",
                             policy_.changes_a_minute,
                             std::chrono::ceil<std::chrono::seconds>(*wait).count())};
  }
  if (!loaded_) {
    return Error{Errc::unavailable,
                 load_error_ ? "the stored settings cannot be read: " + load_error_->text()
                             : "gpuyard is still starting; try again in a second"};
  }
  return {};
}

Result<SettingController::PreparedChanges> SettingController::prepare(
    const ChangeRequest& request) {
  auto refused = check_submission(request);
  PreparedChanges prepared;
  for (const DeviceId& gpu : request.gpus) {
    if (!refused) break;
    const auto queue = queues_.find(gpu);
    if (queue == queues_.end()) {
      refused = Error{Errc::not_found, fmt::format("GPU {} not found", gpu)};
      break;
    }
    for (QueuedChange& order : expand(request, queue->second->managed_settings())) {
      prepared.emplace_back(queue->second.get(), std::move(order));
    }
  }
  if (refused && prepared.empty()) {
    refused = Error{Errc::not_found, "you have no settings on these GPUs"};
  }
  if (!refused) {
    trail_.record_refusal(request.requester, text_of(task_of(request.action)), refused.error());
    return std::move(refused).error();
  }
  for (auto& [queue, order] : prepared) {
    Operation operation{.action = text_of(order.task),
                        .requested_by = order.requester.owner,
                        .request_id = order.requester.request_id,
                        .received = order.requester.received,
                        .requested_at = loop_.wall(),
                        .result = {.gpu = queue->device().id,
                                   .index = queue->device().index,
                                   .kind = kind_of(order.task)}};
    order.operation_id = operations_.add(std::move(operation)).id;
  }
  return prepared;
}

void SettingController::submit(const ChangeRequest& request, const OnChanges& heard) {
  if (is_waiting_for_load_ && policy_.enabled && early_requests_.size() < kMaxEarlyRequests) {
    early_requests_.emplace_back(request, heard);
    return;
  }
  auto prepared = prepare(request);
  if (!prepared) {
    loop_.post([heard, error = prepared.error()] { heard(error); });
    return;
  }
  ChangeCollector::Rollback back;
  if (request.atomic) {
    back = lifetime_.guard([this, request](const ChangeResult& change,
                                           std::vector<SettingClaim> before,
                                           const std::function<void(const ChangeResult&)>& done) {
      roll_back(request, change, std::move(before), done);
    });
  }
  const auto collector = std::make_shared<ChangeCollector>(loop_, prepared->size(), back, heard);
  collector->set_timeout(kRequestTimeout);
  std::size_t index = 0;
  for (auto& [queue, order] : *prepared) {
    order.on_done = collector->result_callback(index++);
    queue->submit(std::move(order));
  }
}

Result<SettingController::Changes> SettingController::submit_async(const ChangeRequest& request) {
  if (request.atomic) {
    return Error{Errc::invalid, "an atomic change needs a client that waits for the result"};
  }
  auto prepared = prepare(request);
  if (!prepared) return std::move(prepared).error();
  Changes changes;
  for (auto& [queue, order] : *prepared) {
    const std::string operation = order.operation_id;
    queue->submit(std::move(order));
    changes.push_back(operations_.find(operation)->result);
  }
  return changes;
}

void SettingController::roll_back(const ChangeRequest& request, const ChangeResult& change,
                                  std::vector<SettingClaim> before,
                                  const std::function<void(const ChangeResult&)>& done) {
  const auto queue = queues_.find(change.gpu);
  if (queue == queues_.end() || !change.kind) return done(change);
  RollBackChange reinstate{*change.kind, std::move(before), std::nullopt, request.force};
  if (const auto* put = std::get_if<SetValue>(&request.action))
    reinstate.new_value = put->setting.value;
  queue->second->submit({.requester = request.requester,
                         .task = std::move(reinstate),
                         .on_done = [done](const ChangeResult& back,
                                           const std::vector<SettingClaim>&) { done(back); }});
}

bool SettingController::try_start(const QueuedChange& order) {
  if (resetter_.is_active()) return false;
  operations_.start(order.operation_id);
  return true;
}

void SettingController::on_finished(const DeviceInfo& gpu, const QueuedChange& order,
                                    const std::optional<ChangeResult>& change, TimePoint began) {
  if (change) {
    operations_.finish(order.operation_id, *change, loop_.now());
    const Operation* operation = operations_.find(order.operation_id);
    if (on_operation_ && operation != nullptr) on_operation_(*operation);
    if (change->outcome != ChangeOutcome::planned) trail_.record_change(gpu, order, *change, began);
    // The disk may be full, for example: expiry is not tried again at once.
    const bool late = std::holds_alternative<Expire>(order.task) && change->error;
    if (late) earliest_expiry_at_ = loop_.now() + GpuQueue::kReconcileDelay;
  }
  resetter_.retry();
  if (std::holds_alternative<Reset>(order.task)) {
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

// Where control is off nothing can be set: what was set stays until it is on again.
void SettingController::schedule_expiry() {
  if (!policy_.enabled) return;
  std::optional<TimePoint> first;
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, holding] : queue->managed_settings()) {
      const auto next = next_expiry(holding);
      if (next && (!first || *next < *first)) first = next;
    }
  }
  if (first) first = std::max(*first, earliest_expiry_at_);
  expiry_timer_ = first ? loop_.call_at(*first, [this] { expire_claims(); }) : Subscription();
}

void SettingController::expire_claims() {
  const TimePoint now = loop_.now();
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, holding] : queue->managed_settings()) {
      const auto next = next_expiry(holding);
      if (next && *next <= now) queue->enqueue_internal(Expire{kind});
    }
  }
}

void SettingController::stop(std::function<void()> done) {
  on_stopped_ = [this, done = std::move(done)] {
    const bool first = std::exchange(on_stopped_, nullptr) != nullptr;
    shutdown_timer_.reset();
    for (const auto& [id, queue] : queues_) queue->abandon();
    if (first) done();
  };
  submit_early_requests();
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
  return queue == queues_.end() ? nullptr : queue->second->managed_setting(kind);
}

std::vector<std::string> SettingController::notes() const {
  auto notes = storage_.notes();
  for (std::string& note : command_port_.notes()) notes.push_back(std::move(note));
  if (load_error_) notes.push_back("the stored settings cannot be read: " + load_error_->text());
  return notes;
}

}  // namespace gpuyard::control
