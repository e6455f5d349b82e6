#include "cli/read/query_csv.h"

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/json_writer.h"
#include "cli/read/devices_for_tests.h"
#include "cli/read/query.h"

namespace gpuyard::cli {
namespace {

std::vector<Field> fields(const std::string& names) {
  auto parsed = parse_fields({names});
  EXPECT_TRUE(parsed.ok()) << names;
  return *std::move(parsed);
}

std::string csv(const std::string& names, protocol::Device shown, CsvStyle style = {}) {
  return query_csv(fields(names), {snapshot_with({std::move(shown)})}, style);
}

std::string cell(const std::string& name, const protocol::Device& shown) {
  const std::string line = csv(name, shown, {.header = false});
  return line.substr(0, line.size() - 1);
}

// Copies what nvidia-smi 580 printed for an H200: its layout, units and order.
TEST(QueryCsv, IsInTheLayoutOfNvidiaSmi) {
  EXPECT_EQ(csv("name,pci.bus_id,pstate,clocks_event_reasons.active,memory.total,utilization.gpu,"
                "temperature.gpu,power.draw,clocks.current.sm,compute_mode,ecc.mode.current",
                device(0, {{Metric::performance_state, 0},
                           {Metric::throttle_reasons, 1},
                           {Metric::memory_total, 143771LL << 20U},
                           {Metric::utilization_gpu, 0},
                           {Metric::temperature_core, 37},
                           {Metric::power_draw, 85'120},
                           {Metric::clock_sm, 345},
                           {Metric::compute_mode, 0},
                           {Metric::ecc_mode, 1}})),
            "name, pci.bus_id, pstate, clocks_event_reasons.active, memory.total [MiB], "
            "utilization.gpu [%], temperature.gpu, power.draw [W], clocks.current.sm [MHz], "
            "compute_mode, ecc.mode.current\n"
            "NVIDIA H100 80GB HBM3, 00000000:1A:00.0, P0, 0x0000000000000001, 143771 MiB, 0 %, 37, "
            "85.12 W, 345 MHz, Default, Enabled\n");
}

TEST(QueryCsv, WithoutUnitsTheHeaderKeepsThem) {
  EXPECT_EQ(csv("power.draw,utilization.gpu", busy(), {.units = false}),
            "power.draw [W], utilization.gpu [%]\n612.70, 97\n");
}

TEST(QueryCsv, TheHeaderMayGo) {
  EXPECT_EQ(csv("index,utilization.gpu", busy(3), {.header = false}), "3, 97 %\n");
}

TEST(QueryCsv, MemoryIsRoundedUpWithoutReserve) {
  const auto shown =
      device(0, {{Metric::memory_reserved, 501'481'472}, {Metric::memory_used, 501'481'472 + 1}});
  EXPECT_EQ(cell("memory.reserved", shown), "479 MiB");
  EXPECT_EQ(cell("memory.used", shown), "1 MiB");
  EXPECT_EQ(cell("memory_used_bytes", shown), "501481473");
}

TEST(QueryCsv, StatesAreSpelledAsInNvidiaSmi) {
  EXPECT_EQ(cell("compute_mode", device(0, {{Metric::compute_mode, 3}})), "Exclusive_Process");
  EXPECT_EQ(cell("remapped_rows.pending", device(0, {{Metric::row_remap_pending, 0}})), "No");
}

TEST(QueryCsv, AThrottleReasonIsActiveOrNot) {
  EXPECT_EQ(cell("clocks_event_reasons.sw_power_cap", busy()), "Active");
  EXPECT_EQ(cell("clocks_throttle_reasons.hw_slowdown", busy()), "Not Active");
  EXPECT_EQ(cell("clocks_event_reasons.gpu_idle", device(0, {})), "[N/A]");
}

TEST(QueryCsv, ThrottleTimeIsInMicroseconds) {
  EXPECT_EQ(cell("clocks_event_reasons_counters.sw_thermal_slowdown",
                 device(0, {{Metric::throttle_time_sw_thermal, 5'000'000}})),
            "5000 us");
}

TEST(QueryCsv, MissingValueUsesNvidiaSmiReason) {
  protocol::Device shown = device(0, {});
  EXPECT_EQ(cell("fan.speed", shown), "[N/A]");
  EXPECT_EQ(cell("temperature.memory", shown), "N/A");
  shown.missing["power_draw_w"] = {MissingReason::device_lost, "GPU is lost"};
  EXPECT_EQ(cell("power.draw", shown), "[GPU is lost]");
  shown.missing["power_draw_w"] = {MissingReason::no_permission, "Insufficient Permissions"};
  EXPECT_EQ(cell("power.draw", shown), "[Insufficient Permissions]");
  shown.missing["power_draw_w"] = {MissingReason::failed, "Corrupted infoROM"};
  EXPECT_EQ(cell("power.draw", shown), "[Corrupted infoROM]");
  shown.missing["power_draw_w"] = {MissingReason::failed, "something, else"};
  EXPECT_EQ(cell("power.draw", shown), "[Unknown Error]");
}

// The last known reading of an unresponsive GPU is not an answer.
TEST(QueryCsv, UnresponsiveGpuReadingsAreTimeout) {
  protocol::Device shown = busy();
  shown.condition = DeviceCondition::unresponsive;
  EXPECT_EQ(cell("power.draw", shown), "[Timeout]");
  EXPECT_EQ(cell("power_draw_w", shown), "[Timeout]");
  EXPECT_EQ(cell("uuid", shown), "GPU-0");
}

TEST(QueryCsv, AMaskHasAll64Bits) {
  protocol::Device shown = busy();
  shown.readings.set({Metric::throttle_reasons, 0, {}, INT64_MIN | 0x40});
  EXPECT_EQ(cell("clocks_event_reasons.active", shown), "0x8000000000000040");
  EXPECT_EQ(cell("clocks_event_reasons.hw_thermal_slowdown", shown), "Active");
}

TEST(QueryCsv, CountIsOfAllGpusWhicheverAreShown) {
  const QueryInput queried{snapshot_with({busy(1)}), 8};
  EXPECT_EQ(query_csv(fields("count"), queried, {.header = false}), "8\n");
}

TEST(QueryCsv, OurOwnKeysHaveTheValuesOfTheJson) {
  EXPECT_EQ(csv("power_draw_w,throttle_reasons,pci_address", busy()),
            "power_draw_w, throttle_reasons, pci_address\n612.7, sw_power_cap, 0000:1a:00.0\n");
  EXPECT_EQ(cell("fan_speed_percent", busy()), "[N/A]");
}

TEST(QueryCsv, ACommaInANameBeginsNoColumn) {
  protocol::Device shown = busy();
  shown.name = "H100, and\nmore";
  EXPECT_EQ(cell("name", shown), "H100? and?more");
}

TEST(QueryCsv, ThePartsOfAPciAddressAreHex) {
  EXPECT_EQ(csv("pci.domain,pci.bus,pci.device", busy(), {.header = false}),
            "0x0000, 0x1A, 0x00\n");
}

TEST(QueryJson, HasOurKeysAndAReasonForEachNull) {
  const auto answer =
      query_answer(fields("power.draw,fan.speed,clocks_event_reasons.sw_power_cap,index"),
                   {snapshot_with({busy(2)})});
  ASSERT_EQ(answer.devices.size(), 1U);
  const auto written = boost::json::parse(json::to_json(answer));
  const auto& values = written.at("devices").at(0).at("values");
  EXPECT_EQ(values.at("power_draw_w"), 612.7);
  EXPECT_EQ(values.at("clocks_event_reasons.sw_power_cap"), true);
  EXPECT_EQ(values.at("index"), 2);
  EXPECT_TRUE(values.at("fan.speed").is_null());
  EXPECT_EQ(answer.devices.front().missing.at("fan.speed"), "Not Supported");
}

}  // namespace
}  // namespace gpuyard::cli
