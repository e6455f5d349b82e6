// Energy over REST: the use of each GPU, and windows that measure it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json_shape.h"
#include "device/snapshot.h"
#include "energy/ledger.h"
#include "protocol/bounds.h"

namespace gpuyard::protocol {

// What energy costs, by the configuration; 0: not known.
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
GPUYARD_ABOUT(Estimate, {"cost", "The energy times the configured price; null without one."},
              {"co2_g", "The energy times the configured grams for each kilowatt-hour, likewise."})

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
     "Counts up whenever the GPU's counter started over: a reset, a driver that was loaded anew, "
     "another boot."})

struct EnergyAccounts {
  double unattributed_joules = 0;
  double daemon_down_joules = 0;
};
BOOST_DESCRIBE_STRUCT(EnergyAccounts, (), (unattributed_joules, daemon_down_joules))
GPUYARD_ABOUT(
    EnergyAccounts, {"unattributed_joules", "Used while the daemon ran."},
    {"daemon_down_joules",
     "Counted by the GPU from an earlier daemon's last save until this one's first reading."})

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
GPUYARD_ABOUT(GpuEnergy, {"index", "NVML index of the GPU; null if it is not there now."},
              {"since", "When its energy was first read; null if it never was."},
              {"accounts", "Null if nothing of its energy is known, as is epoch."},
              {"joules",
               "Used since it was first seen, as far as known: the sum of its accounts; null if "
               "nothing of it is known."},
              {"why", "Why its energy cannot be read now; null if it can."},
              {"estimated", "Now: the GPU has no energy counter, so that its power is integrated."},
              {"estimated_joules", "How many of the joules are integrated power."},
              {"unknown_seconds", "Time of which the energy is not, or not wholly, known."},
              {"age_seconds", "Age of the last reading."},
              {"estimate", "What that energy cost, estimated; null where [energy] has no price."})

struct EnergyReport {
  int schema = 1;
  bool simulated = false;
  std::string taken_at;
  std::optional<double> joules;
  std::vector<GpuEnergy> gpus;
  std::vector<std::string> notes;
  std::optional<Estimate> estimate;
  std::optional<bool> partial = {};
};
BOOST_DESCRIBE_STRUCT(EnergyReport, (),
                      (schema, simulated, taken_at, joules, gpus, notes, estimate, partial))
GPUYARD_ABOUT(EnergyReport,
              {"joules", "Of all GPUs that were ever seen; null if nothing is known of any."},
              {"partial",
               "The joules are at least this: of a GPU, or of some of the time, they are not "
               "known. Null from a daemon that does not tell it."},
              {"notes", "What is wrong with how the books are kept, and which GPUs the sum lacks."})

// A GPU's index, UUID or PCI address; in JSON an index may be a number.
struct GpuName {
  std::string text;
};
void put_json(std::string& out, const GpuName&);
void read_json(const boost::json::value& from, GpuName& to, const std::string& path,
               json::Problems&);
void schema_of(std::type_identity<GpuName>, boost::json::object& out);

struct EnergyWindowWish {
  std::optional<std::vector<GpuName>> gpus;
  std::optional<std::string> name;
  std::optional<std::int64_t> most_seconds;
};
BOOST_DESCRIBE_STRUCT(EnergyWindowWish, (), (gpus, name, most_seconds))
GPUYARD_ABOUT(EnergyWindowWish,
              {"gpus", "Indexes, UUIDs or PCI addresses; all GPUs if there is none.", 1,
               kMostGpuNames},
              {"name", "For people, at most 64 bytes. Whoever may read can see it.", 0,
               energy::Ledger::kLongestName},
              {"most_seconds",
               "Then the window is ended and forgotten: 1 to 2592000 (30 days); 86400 if not said.",
               to_seconds(energy::Ledger::kShortestWindow),
               to_seconds(energy::Ledger::kLongestWindow)})

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
     "All that the device used in the window, whoever used it; null if nothing of it is known."},
    {"why", "Why its energy cannot be read now; null if it can."},
    {"seconds", "Between the readings at the two edges."},
    {"mean_w", "Over the time that is known; null below half a second of it."},
    {"peak_w", "The highest power reading; there is one every second, and at the edges."},
    {"estimated", "At least a part is integrated power, not counted."},
    {"interrupted",
     "The counter started over in between: the joules are of the parts that are known."},
    {"unknown_seconds", "Time of which the energy is not, or not wholly, known."},
    {"age_seconds",
     "Age of the reading at the end: a GPU that does not answer is measured until it last did."})

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
GPUYARD_ABOUT(EnergyWindow, {"joules", "Of those of its GPUs that are known; null if none is."},
              {"partial",
               "The joules are at least this: of a GPU, or of some of the time, they are not "
               "known. Null from a daemon that does not tell it."},
              {"owner_uid", "Who began it, and may end it; so may an administrator."},
              {"ends_at", "When it is over if nobody ends it."})

struct EnergyWindows {
  int schema = 1;
  std::vector<EnergyWindow> windows;
};
BOOST_DESCRIBE_STRUCT(EnergyWindows, (), (schema, windows))

struct WindowName {
  std::string window;
};
BOOST_DESCRIBE_STRUCT(WindowName, (), (window))
GPUYARD_ABOUT(WindowName, {"window", "The id that beginning it gave."})

// Fill in the estimates. Nothing is estimated of energy that is not known.
void put_estimates(EnergyReport&, const Tariff&);
std::optional<Estimate> estimate_of_joules(const Tariff&, std::optional<double> joules);

// `now` gives each GPU's present index; a GPU that is not there has none.
EnergyReport energy_report_of(const energy::Ledger&, const gpuyard::Snapshot& now);
EnergyWindow energy_window_of(const energy::WindowResult&, const gpuyard::Snapshot& now);
// Errors: invalid.
Result<energy::WindowWish> window_wish_of(const EnergyWindowWish&, uid_t owner);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <OneOf<protocol::Estimate, protocol::EnergyEpoch, protocol::EnergyAccounts,
                protocol::GpuEnergy, protocol::EnergyReport, protocol::EnergyWindowWish,
                protocol::WindowGpu, protocol::EnergyWindow, protocol::EnergyWindows>
              T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
