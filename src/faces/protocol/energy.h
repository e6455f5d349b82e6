// Energy over REST: the use of each GPU, and windows that measure it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json_shape.h"
#include "core/energy/ledger.h"
#include "faces/protocol/answer.h"
#include "faces/protocol/bounds.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::protocol {

// The price of energy, by the configuration; 0: not known.
struct Tariff {
  double price_per_kwh = 0;
  std::string currency;
  double g_co2_per_kwh = 0;
};

// Money and CO2 of an amount of energy.
struct Estimate {
  std::optional<double> cost;
  std::optional<std::string> currency;
  std::optional<double> co2_g;
};
BOOST_DESCRIBE_STRUCT(Estimate, (), (cost, currency, co2_g))
GPUYARD_ABOUT(Estimate, {"cost", "Energy times the configured price; null if no price is set."},
              {"co2_g", "Energy times the configured grams per kilowatt-hour; null if not set."})

// Returns nothing if neither a price nor CO2 is configured.
std::optional<Estimate> estimate_of(const Tariff&, double kwh);
// "about 7.80 EUR, 9.4 kg CO2"; "" without an estimate.
std::string text_of(const std::optional<Estimate>&);
inline constexpr double kJoulesPerKwh = 3.6e6;

struct EnergyEpoch {
  std::uint64_t number = 1;
  std::string since;
  double joules = 0;
};
BOOST_DESCRIBE_STRUCT(EnergyEpoch, (), (number, since, joules))
GPUYARD_ABOUT(
    EnergyEpoch,
    {"number",
     "Rises whenever the GPU's counter restarts: after a reset, a driver reload or a reboot."})

struct EnergyAccounts {
  double unattributed_joules = 0;
  double daemon_down_joules = 0;
};
BOOST_DESCRIBE_STRUCT(EnergyAccounts, (), (unattributed_joules, daemon_down_joules))
GPUYARD_ABOUT(
    EnergyAccounts, {"unattributed_joules", "Energy used while the daemon was running."},
    {"daemon_down_joules",
     "Counted by the GPU between an earlier daemon's last save and this daemon's first reading."})

struct GpuEnergy {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::optional<std::string> since;
  std::optional<double> joules;
  std::optional<EnergyAccounts> accounts;
  bool estimated = false;
  double estimated_joules = 0;
  double unknown_seconds = 0;
  std::optional<EnergyEpoch> epoch;
  double age_seconds = 0;
  std::optional<Estimate> estimate;
  std::optional<std::string> why;
};
BOOST_DESCRIBE_STRUCT(GpuEnergy, (),
                      (index, uuid, since, joules, accounts, estimated, estimated_joules,
                       unknown_seconds, epoch, age_seconds, estimate, why))
GPUYARD_ABOUT(GpuEnergy, {"index", "NVML index of the GPU; null if not present now."},
              {"since", "When its energy was first read; null: never."},
              {"accounts", "Energy by account; null, like epoch, if none of its energy is known."},
              {"joules",
               "Energy used since the GPU was first seen, as far as known: the sum of its "
               "accounts; null if none of it is known."},
              {"why", "Why its energy cannot be read now; null if it can."},
              {"estimated",
               "True if the GPU has no energy counter, so that its power is integrated."},
              {"estimated_joules", "Part of `joules` that was integrated from power readings."},
              {"unknown_seconds", "Time for which the energy is unknown or incomplete."},
              {"age_seconds", "Age of the last reading."},
              {"estimate", "Estimated cost of that energy; null if [energy] has no price."})

struct EnergyReport : AnswerHead {
  std::string taken_at;
  std::optional<double> joules;
  std::vector<GpuEnergy> gpus;
  std::vector<std::string> notes;
  std::optional<Estimate> estimate;
  std::optional<bool> partial = {};
};
BOOST_DESCRIBE_STRUCT(EnergyReport, (AnswerHead),
                      (taken_at, joules, gpus, notes, estimate, partial))
GPUYARD_ABOUT(EnergyReport,
              {"joules",
               "Total of all GPUs ever seen, as far as known; null if unknown for all of them."},
              {"partial",
               "True if the joules are a lower bound, because the energy of a GPU or of part of "
               "the time is unknown. Null from older daemons."},
              {"notes",
               "Problems with the energy accounting, and GPUs that the sum does not include."})

// A GPU's index, UUID or PCI address; in JSON an index may be a number.
struct GpuName {
  std::string text;
};
void put_json(std::string& out, const GpuName&);
void read_json(const boost::json::value& from, GpuName& to, const std::string& path,
               json::Problems&);
void schema_of(std::type_identity<GpuName>, boost::json::object& out);

struct EnergyWindowRequest {
  std::optional<std::vector<GpuName>> gpus;
  std::optional<std::string> name;
  std::optional<std::int64_t> most_seconds;
};
BOOST_DESCRIBE_STRUCT(EnergyWindowRequest, (), (gpus, name, most_seconds))
GPUYARD_ABOUT(
    EnergyWindowRequest,
    {"gpus", "Indexes, UUIDs or PCI addresses. Default: all GPUs.", 1, kMaxGpuNames},
    {"name", "Label, at most 64 bytes. Visible to everyone with read access.", 0,
     energy::Ledger::kMaxNameLength},
    {"most_seconds",
     "Seconds after which the window is discarded: 1 to 2592000 (30 days); default 86400.",
     to_seconds(energy::Ledger::kMinWindowDuration),
     to_seconds(energy::Ledger::kMaxWindowDuration)})

struct WindowGpu {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::optional<double> joules;
  double seconds = 0;
  std::optional<double> mean_w;
  std::optional<double> peak_w;
  bool estimated = false;
  bool interrupted = false;
  std::uint64_t epochs_crossed = 0;
  double unknown_seconds = 0;
  double age_seconds = 0;
  std::optional<std::string> why;
};
BOOST_DESCRIBE_STRUCT(WindowGpu, (),
                      (index, uuid, joules, seconds, mean_w, peak_w, estimated, interrupted,
                       epochs_crossed, unknown_seconds, age_seconds, why))
GPUYARD_ABOUT(
    WindowGpu,
    {"joules",
     "Total energy of the device in the window, regardless of user; null if none of it is known."},
    {"why", "Why its energy cannot be read now; null if it can."},
    {"seconds", "Time between the first and the last reading."},
    {"mean_w", "Mean over the time with data; null for less than half a second."},
    {"peak_w", "Highest power reading; power is read every second, and at the start and end."},
    {"estimated",
     "True if at least part of the energy is integrated from power instead of counted."},
    {"interrupted", "The counter restarted in between; the joules cover only the known parts."},
    {"unknown_seconds", "Time for which the energy is unknown or incomplete."},
    {"age_seconds",
     "Age of the last reading; a GPU that does not respond is measured up to its last response."})

struct EnergyWindow {
  int schema = 1;
  std::string id;
  std::optional<std::string> name;
  std::int64_t owner_uid = 0;
  bool simulated = false;
  std::string began_at;
  std::string ends_at;
  double seconds = 0;
  std::optional<double> joules;
  std::vector<WindowGpu> gpus;
  std::vector<std::string> notes;
  std::optional<Estimate> estimate;
  std::optional<bool> partial = {};
};
BOOST_DESCRIBE_STRUCT(EnergyWindow, (),
                      (schema, id, name, owner_uid, simulated, began_at, ends_at, seconds, joules,
                       gpus, notes, estimate, partial))
GPUYARD_ABOUT(EnergyWindow,
              {"joules", "Total of its GPUs with known energy; null if there are none."},
              {"partial",
               "True if the joules are a lower bound, because the energy of a GPU or of part of "
               "the time is unknown. Null from older daemons."},
              {"owner_uid", "User who started it; only this user or an administrator can end it."},
              {"ends_at", "When it expires if not ended."})

struct EnergyWindows {
  int schema = 1;
  std::vector<EnergyWindow> windows;
};
BOOST_DESCRIBE_STRUCT(EnergyWindows, (), (schema, windows))

struct WindowName {
  std::string window;
};
BOOST_DESCRIBE_STRUCT(WindowName, (), (window))
GPUYARD_ABOUT(WindowName, {"window", "ID of the window."})

// Fill in the estimates. Nothing is estimated of energy that is not known.
void put_estimates(EnergyReport&, const Tariff&);
std::optional<Estimate> estimate_of_joules(const Tariff&, std::optional<double> joules);

// `now` gives each GPU's present index; a GPU that is not there has none.
EnergyReport energy_report_of(const energy::Ledger&, const gpuyard::Snapshot& now);
EnergyWindow energy_window_of(const energy::WindowResult&, const gpuyard::Snapshot& now);
// Errors: invalid.
Result<energy::WindowRequest> window_request_of(const EnergyWindowRequest&, uid_t owner);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::Estimate);
GPUYARD_SCHEMA(protocol::EnergyEpoch);
GPUYARD_SCHEMA(protocol::EnergyAccounts);
GPUYARD_SCHEMA(protocol::GpuEnergy);
GPUYARD_SCHEMA(protocol::EnergyReport);
GPUYARD_SCHEMA(protocol::EnergyWindowRequest);
GPUYARD_SCHEMA(protocol::WindowGpu);
GPUYARD_SCHEMA(protocol::EnergyWindow);
GPUYARD_SCHEMA(protocol::EnergyWindows);

}  // namespace gpuyard::json
