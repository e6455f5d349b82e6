/// @file
/// Queries a daemon, on this machine or on another: readings, leases, settings, energy, alerts,
/// events.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuyard/andon.h"
#include "gpuyard/device.h"
#include "gpuyard/driver_info.h"
#include "gpuyard/energy.h"
#include "gpuyard/error.h"
#include "gpuyard/export.h"
#include "gpuyard/setting.h"

namespace gpuyard {
inline namespace v0 {

/// The daemon to query, and the credentials for it.
struct ClientOptions {
  /// "unix:///path", "ssh://[user@]host", "https://host[:9411]", or a name in hosts.toml. Empty:
  /// what GPUYARD_HOST or GPUYARD_SOCKET name, else the daemon of this machine.
  std::string host = {};
  /// For https: a file with the token that only this user can read. Empty: GPUYARD_TOKEN,
  /// GPUYARD_TOKEN_FILE, or what hosts.toml names.
  std::string token_file = {};
  /// The longest time of one request, from connecting to the last byte. A login by ssh has 15 s
  /// more.
  std::chrono::milliseconds deadline{2000};
};

/// A client of a daemon.
///
/// Each function sends one request and waits for its answer until the deadline. A failed request is
/// not retried, with two exceptions. A reading over ssh is retried once if the reused connection
/// had ended. Requests about leases, energy windows and alerts are retried for 30 s while the
/// daemon is reading its stored state, and three times within 5 s while the caller has exceeded a
/// quota. The daemon decides what the caller may: over a Unix socket or ssh by the user, over https
/// by the token.
///
/// Errors of every function: Errc::timed_out, no answer by the deadline (the request may still be
/// carried out); unavailable, no daemon there; denied, the caller may not, or the token or the
/// daemon's key is not right; busy, it has too much to do, retry later; invalid, not_found,
/// conflict, unsupported and device_lost as the message says, which is the daemon's own, with a '?'
/// for each control character and each character that changes the text direction. The hint is the
/// daemon's own, too; of a daemon that sends none, the message ends with it. Records are as the
/// daemon sent them.
///
/// Copies share a connection by ssh and cost what a std::shared_ptr costs. Any thread may call any
/// member function at any time. GPUs are named as the daemon knows them: by index ("0"), UUID or
/// PCI address.
class GPUYARD_API Client {
 public:
  /// A GPU of a lease.
  struct LeasedGpu {
    std::optional<std::uint32_t> index;  ///< on that machine; empty: the GPU is not there now
    std::string uuid;                    ///< its key
    std::string name;                    ///< product name

    /// Equal when every field is.
    friend bool operator==(const LeasedGpu&, const LeasedGpu&) = default;
  };

  /// GPUs that are waited for or held.
  struct Lease {
    /// The states of a claim, in this order.
    enum class State : std::uint8_t {
      waiting,   ///< in the queue
      held,      ///< the GPUs are the caller's
      draining,  ///< given up; its processes are not gone yet
      ended,     ///< over
    };

    std::string id;                ///< names it in every request
    State state = State::waiting;  ///< now
    std::optional<std::uint64_t>
        fence;                    ///< rises with every grant of the machine; from the grant on
    std::vector<LeasedGpu> gpus;  ///< from the grant on
    std::uint32_t uid = 0;        ///< its owner, on the daemon's machine
    std::string user;             ///< that user's name; empty: not known
    std::optional<std::int64_t> position;  ///< while it waits; 1 is next
    std::string why;                       ///< why it waits, drains or was ended, in words
    std::string until;                     ///< RFC 3339: when it ends, if that is known
    std::optional<double> joules;          ///< used under it until now; empty: not measured
    double held_seconds = 0;               ///< since the grant

    /// Equal when every field is.
    friend bool operator==(const Lease&, const Lease&) = default;
  };

  /// A claim: all of its GPUs or none, first come, first served.
  struct LeaseRequest {
    std::uint32_t gpus = 1;                           ///< how many
    std::vector<std::string> among = {};              ///< only these; empty: any
    std::string model = {};                           ///< part of the product name; empty: any
    std::optional<std::int64_t> min_free_bytes = {};  ///< so much free memory on each
    std::optional<std::chrono::seconds> max_time =
        {};  ///< how long it will be held at most, if known
    /// The lease ends after so long unless it is renewed, 10 s to 7 days. Empty: it lasts as long
    /// as this process, which only a daemon of this machine can see.
    std::optional<std::chrono::seconds> ttl = {};
    std::string note = {};  ///< for people, at most 200 bytes
  };

  /// An alert that fires.
  struct Alert {
    std::uint64_t number = 0;             ///< names it
    std::string rule;                     ///< "gpu_hot"
    AlertLevel level = AlertLevel::info;  ///< by its severity
    std::int64_t severity = 0;            ///< 0 to 100
    std::optional<std::uint32_t> gpu;     ///< index; empty: the machine, or a GPU that is gone
    std::string message;                  ///< what is wrong
    std::string advice;                   ///< what to do about it
    std::string fired;                    ///< RFC 3339
    bool acknowledged = false;            ///< somebody looks after it
    bool quarantines = false;             ///< the GPU gets no new work because of it

    /// Equal when every field is.
    friend bool operator==(const Alert&, const Alert&) = default;
  };

  /// An event, or a change of the connection.
  struct Event {
    /// The kind of the event.
    enum class Kind : std::uint8_t {
      happened,  ///< name, id and data say what
      away,      ///< the daemon does not answer; it is asked again until it does
      back,      ///< it answers again; nothing was missed unless `lost` follows
      lost,      ///< it no longer knows what followed the last event: all that it knows comes now
    };
    Kind kind = Kind::happened;  ///< which
    std::string name;            ///< "device", "alert", "lease", "operation", "load"
    std::string id;              ///< of the last event that has one: begin behind it next time
    std::string data;            ///< JSON, as docs/rest.md says
    std::string why;             ///< of `away`, in words
  };

  /// The beginning of a stream of events, and its GPUs.
  struct EventsOptions {
    /// "oldest", or the id of the last event that was seen. Empty: what happens from now on.
    std::string since = {};
    /// Only of these GPUs, with commas; what concerns no GPU comes anyway. Empty: of all.
    std::string gpus = {};
  };

  /// The daemon's events, each once and in order, across restarts of the daemon.
  class GPUYARD_API Events {
   public:
    /// A moved-from stream may only be destroyed or assigned to.
    Events(Events&&) noexcept;
    /// Ends the stream that it was.
    Events& operator=(Events&&) noexcept;
    /// Ends the stream.
    ~Events();

    /// Waits for the next one. Empty: none came in time. The first call connects; it and one that
    /// connects again may take two seconds longer.
    ///
    /// An error is the end: the daemon refuses, or was never there. One thread at a time.
    Result<std::optional<Event>> next(std::chrono::milliseconds wait);

   private:
    friend class Client;
    struct State;
    explicit Events(std::unique_ptr<State>);
    std::unique_ptr<State> state_;
  };

  /// Finds the daemon; sends it nothing yet, so that a daemon that is away is no error here.
  ///
  /// Errors: Errc::invalid, the host is none, or two sources of it disagree; not_found, hosts.toml
  /// does not name it; unavailable, no daemon runs on this machine; denied, the token's file can be
  /// read by others.
  static Result<Client> open(const ClientOptions& options = {});

  /// The address of its daemon: "/run/gpuyard/gpuyard.sock", "ssh://lab".
  std::string name() const;

  /// Any route of the daemon: `method` is "GET", "POST", "PUT" or "DELETE", `target` a path with a
  /// query, as "/api/gpu/usage?by=user", `body` JSON. Returns the body of the answer.
  /// "/openapi.json" lists all routes.
  Result<std::string> request(std::string_view method, std::string_view target,
                              std::string_view body = {}) const;

  /// All GPUs in full, from the newest snapshot, at most a second old.
  Result<std::vector<Device>> inventory() const;
  /// The driver as it reports about itself; `library` is empty.
  Result<DriverInfo> get_driver_info() const;

  /// Claims GPUs and waits until it has all of them: the result is held. A `wait` of 0 does not
  /// queue at all.
  ///
  /// Errors: Errc::timed_out, `wait` is over or a stop was requested, and the place in the queue is
  /// given up; conflict, the GPUs are not there at once or never will be. A daemon that restarts
  /// meanwhile keeps the place. A request for a stop is seen within two seconds.
  Result<Lease> claim(const LeaseRequest& request, std::chrono::milliseconds wait,
                      const std::stop_token& stop = {}) const;
  /// The lease of this id, also one that ended within the last day.
  Result<Lease> find_lease(const std::string& id) const;
  /// All leases that are held or draining, oldest first.
  Result<std::vector<Lease>> leases() const;
  /// Lets a lease with a time last so long from now on.
  Result<Lease> renew(const Lease& lease, std::chrono::seconds ttl) const;
  /// Gives up the lease or its place in the queue.
  Result<Lease> release(const Lease& lease) const;

  /// Sets the setting of a GPU, of several with commas, or of "all"; `lasting`: put back after so
  /// long. The daemon checks it, writes it down, reads it back, and restores what was before when
  /// it ends. Errc::conflict: another user claims another value.
  Result<void> set(const std::string& gpus, SettingKind kind, const SettingValue& value,
                   std::optional<std::chrono::seconds> lasting = {}) const;
  /// Gives up the caller's claim on the setting.
  Result<void> restore(const std::string& gpus, SettingKind kind) const;

  /// Begins to measure the energy of these GPUs (empty: all), and returns the window's name. It
  /// survives the daemon, and is over after a day if nobody ends it.
  Result<std::string> begin_energy_window(const std::vector<std::string>& gpus = {}) const;
  /// The energy used in it until now.
  Result<EnergyMeasurement> measure_energy(const std::string& window) const;
  /// Ends it, and returns the energy used in it.
  Result<EnergyMeasurement> end_energy_window(const std::string& window) const;

  /// The alerts that fire now.
  Result<std::vector<Alert>> alerts() const;
  /// Acknowledges an alert: no further notifications are sent until it is over.
  Result<void> acknowledge(std::uint64_t alert, const std::string& note = {}) const;

  /// Follows events.
  Events events(const EventsOptions& options) const;
  /// Follows the events of all GPUs from now on.
  Events events() const { return events(EventsOptions()); }

 private:
  struct State;
  explicit Client(std::shared_ptr<const State>);
  std::shared_ptr<const State> state_;
};

}  // namespace v0
}  // namespace gpuyard
