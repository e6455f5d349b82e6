#include "core/control/setting_controller.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/control/change_request.h"

namespace gpuyard::control {

Control::Control(Loop& loop, Commander& commander, ControlStorage& archive, Policy policy,
                 std::string boot_id, std::string epoch)
    : loop_(loop),
      commander_(commander),
      archive_(archive),
      policy_(policy),
      environment_{loop,
                   commander,
                   archive,
                   std::move(boot_id),
                   0,
                   [this](const QueuedChange& order) { return begins(order); },
                   [this](const DeviceInfo& gpu, const QueuedChange& order,
                          const std::optional<Change>& change,
                          TimePoint began) { on_over(gpu, order, change, began); },
                   [this](const DeviceInfo& gpu, bool dry_run, Resetting::Then then) {
                     resetting_.begin(
                         gpu, dry_run, [this, id = gpu.id] { return quiet_but_for(id); },
                         std::move(then));
                   }},
      trail_(loop, archive),
      changes_of_(static_cast<double>(policy.changes_a_minute)),
      operations_(std::move(epoch)),
      resetting_(loop, commander) {}

void Control::start() {
  early_timer_ = loop_.call_after(kLoadPatience, [this] { answer_early(); });
  load();
}

void Control::load() {
  const bool asked = archive_.load(
      here_.guard([this](Result<std::vector<Holding>> kept) { on_loaded(std::move(kept)); }));
  if (!asked) load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
}

void Control::on_loaded(Result<std::vector<Holding>> kept) {
  if (kept) {
    unloaded_.reset();
    loaded_ = true;
    for (Holding& holding : *kept) adopt(std::move(holding));
    expire_in_time();
  } else {
    unloaded_ = kept.error();
    load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
  }
  answer_early();
}

// Answers the early requests. Later ones no longer wait for the disk.
void Control::answer_early() {
  early_timer_.reset();
  early_wait_ = false;
  for (const auto& [request, heard] : std::exchange(early_, {})) ask(request, heard);
}

void Control::adopt(Holding holding) {
  carry_into_boot(holding, environment_.boot_id, loop_.now(), loop_.wall());
  // The value may have been written or not: a look has to tell.
  if (holding.replaced) holding.standing = Standing::owed;
  const auto queue = queues_.find(holding.gpu);
  if (queue == queues_.end()) return homeless_[holding.gpu].push_back(std::move(holding));
  const SettingKind kind = holding.kind;
  queue->second->adopt(std::move(holding));
  if (settled_.contains(queue->first) && policy_.enabled) queue->second->take_own(Settle{kind});
}

void Control::on_fleet(const Fleet& fleet) {
  for (const DeviceInfo& device : fleet.devices) {
    if (device.uuid.empty()) continue;
    auto& queue = queues_[device.id];
    if (queue) {
      queue->rename(device);
    } else {
      queue = std::make_unique<GpuQueue>(environment_, device);
      if (stopped_) queue->close();
    }
    if (auto home = homeless_.extract(device.id)) {
      for (Holding& holding : home.mapped()) queue->adopt(std::move(holding));
    }
    if (device.fault) {
      settled_.erase(device.id);
    } else if (settled_.insert(device.id).second && policy_.enabled) {
      queue->on_driver_back();
    }
  }
  expire_in_time();
}

void Control::drop_lapsed() {
  for (const auto& [id, queue] : queues_) queue->drop_lapsed();
}

void Control::on_reply(const CommandReply& reply) {
  if (auto look = looks_.extract(reply.id)) {
    const auto seen = reply.failure ? Result<SettingState>(reply.failure->error())
                                    : Result<SettingState>(reply.before.value_or(SettingState{}));
    for (const Seen& told : look.mapped().seen) told(seen);
    return;
  }
  const auto queue = queues_.find(reply.device);
  if (queue != queues_.end()) queue->second->on_reply(reply);
}

void Control::on_host_down() {
  settled_.clear();
  for (const auto& [id, look] : std::exchange(looks_, {})) {
    for (const Seen& told : look.seen) {
      told(Error{Errc::unavailable, "the driver-host exited before responding"});
    }
  }
  for (const auto& [id, queue] : queues_) queue->on_host_down();
}

void Control::on_setter_down() {
  for (const auto& [id, queue] : queues_) queue->on_setter_down();
}

void Control::on_setter_back() {
  for (const auto& [id, queue] : queues_) queue->on_setter_back();
}

// A look that finds the same one under way shares its answer, so that looks cannot fill a GPU's
// queue.
void Control::look(const DeviceId& gpu, SettingKind kind, Seen seen) {
  for (auto& [id, look] : looks_) {
    if (look.gpu != gpu || look.kind != kind) continue;
    if (look.seen.size() >= kMostLooks)
      return seen(Error{Errc::busy, "too many requests for this setting"});
    return look.seen.push_back(std::move(seen));
  }
  const std::uint64_t id = ++environment_.last_command;
  const bool asked = commander_.command({id, gpu, Look{kind}, "", loop_.now()});
  if (!asked) return seen(Error{Errc::busy, "the driver-host is unavailable or too busy"});
  looks_[id] = {gpu, kind, {std::move(seen)}};
}

Result<void> Control::may_ask(const Request& request) {
  if (!policy_.enabled) {
    return Error{Errc::denied, "changing GPUs is disabled",
                 "[control] enabled is false in the daemon's configuration"};
  }
  if (request.force && !request.asker.admin) {
    return Error{Errc::denied,
                 "force is only for administrators: root, or the user gpuyard runs as"};
  }
  if (auto checked = check_request(request); !checked) return checked;
  const bool puts_back = std::holds_alternative<Restore>(request.action);
  const bool sets =
      !puts_back && !request.dry_run && !std::holds_alternative<Reset>(request.action);
  const auto obstacle = commander_.obstacle();
  if (sets && obstacle && obstacle->code == Errc::denied) return *obstacle;
  const auto wait = request.asker.admin || puts_back
                        ? std::nullopt
                        : changes_of_.take(request.asker.counted(), loop_.now());
  if (wait) {
    return Error{Errc::busy,
                 fmt::format("the limit is {} changes per user per minute; try again in {} s",
                             policy_.changes_a_minute,
                             std::chrono::ceil<std::chrono::seconds>(*wait).count())};
  }
  if (!loaded_) {
    return Error{Errc::unavailable, unloaded_
                                        ? "the stored settings cannot be read: " + unloaded_->text()
                                        : "gpuyard is still starting; try again in a second"};
  }
  return {};
}

Result<Control::Prepared> Control::prepare(const Request& request) {
  auto refused = may_ask(request);
  Prepared prepared;
  for (const DeviceId& gpu : request.gpus) {
    if (!refused) break;
    const auto queue = queues_.find(gpu);
    if (queue == queues_.end()) {
      refused = Error{Errc::not_found, fmt::format("GPU {} not found", gpu)};
      break;
    }
    for (QueuedChange& order : orders_of(request, queue->second->holdings())) {
      prepared.emplace_back(queue->second.get(), std::move(order));
    }
  }
  if (refused && prepared.empty()) {
    refused = Error{Errc::not_found, "you have no settings on these GPUs"};
  }
  if (!refused) {
    trail_.note_refusal(request.asker, text_of(job_of(request.action)), refused.error());
    return std::move(refused).error();
  }
  for (auto& [queue, order] : prepared) {
    Operation operation{
        .action = text_of(order.job),
        .asked_by = order.asker.owner,
        .request_id = order.asker.request_id,
        .received = order.asker.received,
        .asked_at = loop_.wall(),
        .change = {
            .gpu = queue->device().id, .index = queue->device().index, .kind = kind_of(order.job)}};
    order.operation = operations_.add(std::move(operation)).id;
  }
  return prepared;
}

void Control::ask(const Request& request, const Heard& heard) {
  if (early_wait_ && policy_.enabled && early_.size() < kMostEarly) {
    early_.emplace_back(request, heard);
    return;
  }
  auto prepared = prepare(request);
  if (!prepared) {
    loop_.post([heard, error = prepared.error()] { heard(error); });
    return;
  }
  ChangeCollector::TakeBack back;
  if (request.atomic) {
    back = here_.guard([this, request](const Change& change, std::vector<Claim> before,
                                       const std::function<void(const Change&)>& done) {
      take_back(request, change, std::move(before), done);
    });
  }
  const auto collector = std::make_shared<ChangeCollector>(loop_, prepared->size(), back, heard);
  collector->wait(kPatience);
  std::size_t index = 0;
  for (auto& [queue, order] : *prepared) {
    order.done = collector->place(index++);
    queue->submit(std::move(order));
  }
}

Result<Control::Changes> Control::send(const Request& request) {
  if (request.atomic) {
    return Error{Errc::invalid, "an atomic change needs a client that waits for the result"};
  }
  auto prepared = prepare(request);
  if (!prepared) return std::move(prepared).error();
  Changes changes;
  for (auto& [queue, order] : *prepared) {
    const std::string operation = order.operation;
    queue->submit(std::move(order));
    changes.push_back(operations_.find(operation)->change);
  }
  return changes;
}

void Control::take_back(const Request& request, const Change& change, std::vector<Claim> before,
                        const std::function<void(const Change&)>& done) {
  const auto queue = queues_.find(change.gpu);
  if (queue == queues_.end() || !change.kind) return done(change);
  Reinstate reinstate{*change.kind, std::move(before), std::nullopt, request.force};
  if (const auto* put = std::get_if<Put>(&request.action)) reinstate.made = put->setting.value;
  queue->second->submit(
      {.asker = request.asker,
       .job = std::move(reinstate),
       .done = [done](const Change& back, const std::vector<Claim>&) { done(back); }});
}

bool Control::begins(const QueuedChange& order) {
  if (resetting_.under_way()) return false;
  operations_.running(order.operation);
  return true;
}

void Control::on_over(const DeviceInfo& gpu, const QueuedChange& order,
                      const std::optional<Change>& change, TimePoint began) {
  if (change) {
    operations_.over(order.operation, *change, loop_.now());
    const Operation* operation = operations_.find(order.operation);
    if (told_ && operation != nullptr) told_(*operation);
    if (change->outcome != Outcome::planned) trail_.note(gpu, order, *change, began);
    // The disk may be full, for example: expiry is not tried again at once.
    const bool late = std::holds_alternative<Expire>(order.job) && change->error;
    if (late) expire_from_ = loop_.now() + GpuQueue::kTryAgain;
  }
  resetting_.go_on();
  if (std::holds_alternative<Reset>(order.job)) {
    for (const auto& [id, queue] : queues_) queue->go_on();
  }
  expire_in_time();
  if (stopped_ && quiet_but_for("")) farewell_ = loop_.call_at(loop_.now(), stopped_);
}

bool Control::quiet_but_for(const DeviceId& gpu) const {
  return std::ranges::all_of(queues_, [&](const auto& one) {
    return one.first == gpu || (stopped_ ? one.second->empty() : one.second->idle());
  });
}

// Where control is off nothing can be set: what was set stays until it is on again.
void Control::expire_in_time() {
  if (!policy_.enabled) return;
  std::optional<TimePoint> first;
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, holding] : queue->holdings()) {
      const auto next = next_expiry(holding);
      if (next && (!first || *next < *first)) first = next;
    }
  }
  if (first) first = std::max(*first, expire_from_);
  expiry_ = first ? loop_.call_at(*first, [this] { expire(); }) : Subscription();
}

void Control::expire() {
  const TimePoint now = loop_.now();
  for (const auto& [id, queue] : queues_) {
    for (const auto& [kind, holding] : queue->holdings()) {
      const auto next = next_expiry(holding);
      if (next && *next <= now) queue->take_own(Expire{kind});
    }
  }
}

void Control::stop(std::function<void()> done) {
  stopped_ = [this, done = std::move(done)] {
    const bool first = std::exchange(stopped_, nullptr) != nullptr;
    farewell_.reset();
    for (const auto& [id, queue] : queues_) queue->abandon();
    if (first) done();
  };
  answer_early();
  resetting_.close();
  for (const auto& [id, queue] : queues_) {
    if (policy_.enabled && policy_.restore_on_stop) queue->suspend();
    queue->close();
  }
  farewell_ = loop_.call_at(loop_.now() + (quiet_but_for("") ? Duration(0) : kFarewell), stopped_);
}

const Holding* Control::holding(const DeviceId& gpu, SettingKind kind) const {
  const auto queue = queues_.find(gpu);
  return queue == queues_.end() ? nullptr : queue->second->holding(kind);
}

std::vector<std::string> Control::notes() const {
  auto notes = archive_.notes();
  for (std::string& note : commander_.notes()) notes.push_back(std::move(note));
  if (unloaded_) notes.push_back("the stored settings cannot be read: " + unloaded_->text());
  return notes;
}

}  // namespace gpuyard::control
