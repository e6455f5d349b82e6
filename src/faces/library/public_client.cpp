// The public Client: a thin shell over the room `client` that converts the records.
#include "base/identifiers.h"
#include "gpuyard/client.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/paths.h"
#include "base/record.h"
#include "base/text.h"
#include "base/try.h"
#include "faces/client/daemon_client.h"
#include "faces/client/event_follower.h"
#include "faces/client/local_daemon.h"
#include "faces/library/public_device.h"
#include "faces/protocol/routes.h"

namespace gpuyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The longest time that the daemon may keep one answer to a claim, and so until a stop is noticed.
constexpr Duration kClaimPollTimeout = seconds(2);
constexpr Duration kClaimRetryDelay = milliseconds(200);
constexpr Duration kChangeTimeout = seconds(15);

// The words of the two rooms are the same, in the same order.
static_assert(static_cast<int>(Client::Lease::State::ended) ==
              static_cast<int>(lease::LeaseState::ended));
static_assert(static_cast<int>(Client::Event::Kind::lost) ==
              static_cast<int>(client::FollowerEvent::Kind::lost));

Client::Lease public_lease(const protocol::Lease& lease) {
  Client::Lease out;
  out.id = lease.id;
  out.state = static_cast<Client::Lease::State>(lease.state);
  if (lease.fence != 0) out.fence = lease.fence;
  for (const auto& gpu : lease.gpus) out.gpus.push_back({gpu.index, gpu.uuid, gpu.name});
  out.uid = lease.uid;
  out.user = lease.user.value_or("");
  if (lease.place) out.position = lease.place->position;
  out.why = lease.place ? lease.place->text : lease.detail;
  if (lease.until) out.until = to_rfc3339(*lease.until);
  if (!lease.use) return out;
  out.held_seconds = to_seconds(lease.use->held);
  constexpr double kMillijoules = 1000;
  if (lease.use->energy_mj) {
    out.joules = static_cast<double>(*lease.use->energy_mj) / kMillijoules;
  }
  return out;
}

Client::Alert public_alert(const protocol::Alert& alert) {
  return {.number = alert.number,
          .rule = alert.rule,
          .level = alert.level,
          .severity = alert.severity,
          .gpu = alert.device ? alert.device->index : std::nullopt,
          .message = alert.message,
          .advice = alert.advice,
          .fired = to_rfc3339(alert.fired),
          .acknowledged = alert.acknowledged.has_value(),
          .quarantines = alert.quarantines};
}

EnergyMeasurement measurement_of(const protocol::EnergyWindow& window) {
  EnergyMeasurement out{window.seconds, window.joules, {}, window.partial.value_or(false)};
  for (const auto& gpu : window.gpus) {
    out.gpus.push_back({gpu.index.value_or(0), gpu.uuid, gpu.joules, gpu.seconds, gpu.mean_w,
                        gpu.peak_w, gpu.estimated, gpu.interrupted, gpu.unknown_seconds});
  }
  return out;
}

std::vector<protocol::GpuName> names_of(const std::vector<std::string>& gpus) {
  std::vector<protocol::GpuName> names;
  for (const std::string& gpu : gpus) names.push_back({gpu});
  return names;
}

protocol::LeaseRequest lease_request_of(const Client::LeaseRequest& request, Duration wait) {
  protocol::LeaseRequest out;
  out.id = new_id();
  out.gpus = request.gpus;
  out.min_free_bytes = request.min_free_bytes;
  if (!request.model.empty()) out.model = request.model;
  if (!request.among.empty()) out.among = names_of(request.among);
  if (request.max_time) out.max_time_s = static_cast<double>(request.max_time->count());
  if (wait <= Duration::zero()) out.wait_s = 0;
  out.binding = request.ttl ? "detached" : "process";
  if (request.ttl) out.ttl_s = static_cast<double>(request.ttl->count());
  if (!request.note.empty()) out.note = request.note;
  return out;
}

// The message may reach a terminal or a log, and the daemon need not be trusted.
Error sanitize(const Error& error) {
  std::string hint;
  for (std::string_view rest = error.hint; !rest.empty();) {
    hint += (hint.empty() ? "" : "\n") + printable(take_until('\n', rest));
  }
  return {error.code, printable(error.message), printable(error.cause), std::move(hint)};
}

template <class T>
Result<T> sanitize(Result<T> answer) {
  return answer ? std::move(answer) : Result<T>(sanitize(answer.error()));
}

// The first GPU that could not be changed says why.
Result<void> check_changes(const Result<protocol::ChangeResults>& answer) {
  if (!answer) return sanitize(answer.error());
  for (const protocol::ChangeResult& change : answer->changes) {
    if (!change.error) continue;
    return sanitize(Error{enum_from_name<Errc>(change.error->code).value_or(Errc::internal),
                          change.error->message});
  }
  return {};
}

}  // namespace

struct Client::State {
  http::Endpoint daemon;
  Duration timeout;

  template <class Params, class Answer, class Body>
  Result<Answer> call(const protocol::Route<Params, Answer, Body>& route,
                      const Params& parameters = {}, const Body& body = {}) const {
    return sanitize(client::call(daemon, route, parameters, body, timeout));
  }
  // The same for stored state, which the daemon may still be reading.
  template <class Params, class Answer, class Body>
  Result<Answer> call_with_retry(const protocol::Route<Params, Answer, Body>& route,
                                 const Params& parameters = {}, const Body& body = {}) const {
    return sanitize(client::call_with_retry(daemon, route, parameters, body, timeout));
  }
  template <class RequestBody>
  Result<void> change(
      const protocol::Route<protocol::ManagedGpus, protocol::ChangeResults, RequestBody>& route,
      const std::string& gpus, RequestBody body, std::optional<seconds> duration) const {
    if (duration) body.for_s = static_cast<double>(duration->count());
    return check_changes(
        client::call(daemon, route, {gpus}, body, std::max(timeout, kChangeTimeout)));
  }
};

Client::Client(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Result<Client> Client::open(const ClientOptions& options) {
  const Environment environment = Environment::current();
  client::Credentials credentials = client::credentials_of(environment);
  if (!options.token_file.empty()) {
    credentials.token.clear();
    credentials.token_file = options.token_file;
  }
  auto daemon = GPUYARD_TRY(client::select_daemon(options.host, environment, credentials));
  return Client(std::make_shared<State>(State{std::move(daemon), options.deadline}));
}

std::string Client::name() const {
  return state_->daemon.text();
}

Result<std::string> Client::request(std::string_view method, std::string_view target,
                                    std::string_view body) const {
  constexpr std::string_view kMethods = " GET POST PUT DELETE ";
  if (kMethods.find(" " + std::string(method) + " ") == kMethods.npos) {
    return Error{Errc::invalid, "the method must be GET, POST, PUT or DELETE"};
  }
  const auto plain = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!target.starts_with('/') || !std::ranges::all_of(target, plain)) {
    return Error{Errc::invalid, "the target must be a percent-encoded path and query"};
  }
  protocol::RouteInfo route;
  route.method = method;
  return sanitize(client::exchange(state_->daemon, route, std::string(target), std::string(body),
                                   state_->timeout));
}

Result<std::vector<Device>> Client::inventory() const {
  const auto snapshot = state_->call(protocol::kSnapshot);
  if (!snapshot) return snapshot.error();
  if (!snapshot->driver_initialised) {
    return Error{Errc::unavailable,
                 printable(snapshot->driver_error.value_or("the driver is unavailable"))};
  }
  std::vector<Device> devices;
  for (const protocol::Device& device : snapshot->devices) {
    devices.push_back(library::public_device(protocol::state_of(device)));
  }
  return devices;
}

Result<DriverInfo> Client::get_driver_info() const {
  const auto snapshot = GPUYARD_TRY(state_->call(protocol::kSnapshot));
  return DriverInfo{snapshot.driver.driver_version, snapshot.driver.cuda_driver_version,
                    snapshot.driver.nvml_version, "", snapshot.simulated};
}

// Retries with the same id, so that a daemon that restarts knows the claim.
Result<Client::Lease> Client::claim(const LeaseRequest& request, milliseconds wait,
                                    const std::stop_token& stop) const {
  const TimePoint end = BootClock::now() + wait;
  auto body = lease_request_of(request, wait);
  std::string why = "no response for the claim";
  for (bool submitted = false; !submitted || (BootClock::now() < end && !stop.stop_requested());) {
    const Duration left =
        std::clamp<Duration>(end - BootClock::now(), Duration::zero(), kClaimPollTimeout);
    body.answer_within_s = to_seconds(left);
    const auto answer =
        sanitize(client::call(state_->daemon, protocol::kClaim, {}, body, state_->timeout + left));
    if (answer && answer->lease.state == lease::LeaseState::held)
      return public_lease(answer->lease);
    if (answer && answer->lease.state != lease::LeaseState::waiting) {
      return sanitize(Error{Errc::conflict, answer->lease.detail});
    }
    if (!answer && (!client::is_transient(answer.error()) || body.wait_s)) return answer.error();
    if (answer && answer->lease.place) why = answer->lease.place->text;
    if (!answer) why = answer.error().text();
    submitted = true;
    if (!answer) std::this_thread::sleep_for(kClaimRetryDelay);
  }
  protocol::ReleaseQuery release;
  release.lease = *body.id;
  static_cast<void>(state_->call(protocol::kRelease, release).ok());
  return sanitize(Error{Errc::timed_out, "the GPUs were not available in time: " + why});
}

Result<Client::Lease> Client::find_lease(const std::string& id) const {
  const auto answer = state_->call_with_retry(protocol::kLease, {id});
  if (!answer) return answer.error();
  return public_lease(answer->lease);
}

Result<std::vector<Client::Lease>> Client::leases() const {
  const auto answer = GPUYARD_TRY(state_->call_with_retry(protocol::kLeases));
  std::vector<Lease> leases;
  std::ranges::transform(answer.leases, std::back_inserter(leases), public_lease);
  return leases;
}

Result<Client::Lease> Client::renew(const Lease& lease, seconds ttl) const {
  const protocol::RenewRequest body{static_cast<double>(ttl.count()), lease.fence};
  const auto answer = state_->call_with_retry(protocol::kRenew, {lease.id}, body);
  if (!answer) return answer.error();
  return public_lease(answer->lease);
}

Result<Client::Lease> Client::release(const Lease& lease) const {
  protocol::ReleaseQuery query;
  query.lease = lease.id;
  query.fence = lease.fence;
  const auto answer = GPUYARD_TRY(state_->call_with_retry(protocol::kRelease, query));
  return public_lease(answer.lease);
}

Result<void> Client::set(const std::string& gpus, SettingKind kind, const SettingValue& value,
                         std::optional<seconds> lasting) const {
  const State& daemon = *state_;
  const auto view = protocol::view_of(Setting{kind, value});
  const protocol::LockedClocksRequest clocks{{}, value.lowest, value.highest};
  switch (kind) {
    case SettingKind::power_limit:
      return daemon.change(protocol::kSetPowerLimit, gpus, {{}, value.lowest}, lasting);
    case SettingKind::gpu_clocks:
      return daemon.change(protocol::kSetGpuClocks, gpus, clocks, lasting);
    case SettingKind::memory_clocks:
      return daemon.change(protocol::kSetMemoryClocks, gpus, clocks, lasting);
    case SettingKind::persistence:
      return daemon.change(protocol::kSetPersistence, gpus, {{}, value.lowest != 0}, lasting);
    case SettingKind::compute_mode:
      return daemon.change(protocol::kSetComputeMode, gpus, {{}, view.compute_mode.value_or("")},
                           lasting);
    case SettingKind::ecc:
      return daemon.change(protocol::kSetEccMode, gpus, {{}, value.lowest != 0}, lasting);
  }
  return Error{Errc::invalid, "unknown setting"};
}

Result<void> Client::restore(const std::string& gpus, SettingKind kind) const {
  using Restore = protocol::Route<protocol::RestoreQuery, protocol::ChangeResults>;
  const Restore* const route = [kind]() -> const Restore* {
    switch (kind) {
      case SettingKind::power_limit:
        return &protocol::kRestorePowerLimit;
      case SettingKind::gpu_clocks:
        return &protocol::kRestoreGpuClocks;
      case SettingKind::memory_clocks:
        return &protocol::kRestoreMemoryClocks;
      case SettingKind::persistence:
        return &protocol::kRestorePersistence;
      case SettingKind::compute_mode:
        return &protocol::kRestoreComputeMode;
      case SettingKind::ecc:
        return &protocol::kRestoreEccMode;
    }
    return nullptr;
  }();
  if (route == nullptr) return Error{Errc::invalid, "unknown setting"};
  protocol::RestoreQuery query;
  query.id = gpus;
  return check_changes(
      client::call(state_->daemon, *route, query, {}, std::max(state_->timeout, kChangeTimeout)));
}

Result<std::string> Client::begin_energy_window(const std::vector<std::string>& gpus) const {
  protocol::EnergyWindowRequest body;
  if (!gpus.empty()) body.gpus = names_of(gpus);
  auto window = state_->call_with_retry(protocol::kBeginEnergyWindow, {}, body);
  if (!window) return std::move(window).error();
  return std::move(window->id);
}

Result<EnergyMeasurement> Client::measure_energy(const std::string& window) const {
  const auto measured = state_->call_with_retry(protocol::kEnergyWindow, {window});
  if (!measured) return measured.error();
  return measurement_of(*measured);
}

Result<EnergyMeasurement> Client::end_energy_window(const std::string& window) const {
  const auto measured = state_->call_with_retry(protocol::kEndEnergyWindow, {window});
  if (!measured) return measured.error();
  return measurement_of(*measured);
}

Result<std::vector<Client::Alert>> Client::alerts() const {
  const auto answer = GPUYARD_TRY(state_->call_with_retry(protocol::kAlerts));
  std::vector<Alert> alerts;
  std::ranges::transform(answer.alerts, std::back_inserter(alerts), public_alert);
  return alerts;
}

Result<void> Client::acknowledge(std::uint64_t alert, const std::string& note) const {
  protocol::AcknowledgeRequest body;
  if (!note.empty()) body.note = note;
  const auto answer = state_->call_with_retry(protocol::kAcknowledge, {alert}, body);
  return answer ? Result<void>() : answer.error();
}

struct Client::Events::State {
  client::EventFollower follower;
};

Client::Events::Events(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::Events::Events(Events&&) noexcept = default;
Client::Events& Client::Events::operator=(Events&&) noexcept = default;
Client::Events::~Events() = default;

Client::Events Client::events(const EventsOptions& options) const {
  protocol::EventsRequest request;
  request.samples = protocol::SampleDetail::none;
  if (!options.since.empty()) request.since = options.since;
  if (!options.gpus.empty()) request.gpus = options.gpus;
  return Events(std::make_unique<Events::State>(
      Events::State{client::EventFollower(state_->daemon, std::move(request))}));
}

Result<std::optional<Client::Event>> Client::Events::next(milliseconds wait) {
  auto next_event = state_->follower.next(wait);
  if (!next_event) return sanitize(next_event.error());
  if (!*next_event) return std::optional<Event>();
  auto& [kind, event, error] = **next_event;
  return std::optional(Event{static_cast<Event::Kind>(kind), std::move(event.name),
                             std::move(event.id), std::move(event.data), printable(error.text())});
}

}  // namespace gpuyard
