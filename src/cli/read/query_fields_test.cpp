#include "cli/read/query_fields.h"

#include <set>

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

TEST(QueryFields, EveryNameIsThereOnceAndIsFound) {
  std::set<std::string> names;
  for (const Field& field : known_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    const auto found = parse_field(field.name);
    ASSERT_TRUE(found.ok()) << field.name;
    EXPECT_EQ(found->name, field.name);
    EXPECT_NE(help_of(field), "") << field.name;
  }
}

TEST(QueryFields, EveryCatalogKeyIsQueryable) {
  for (const MetricRow& row : catalog()) EXPECT_TRUE(parse_field(json_key(row)).ok()) << row.key;
}

TEST(QueryFields, CatalogNamesOfNvidiaSmiAreFields) {
  for (const MetricRow& row : catalog()) {
    if (row.nvidia_smi.empty() || row.nvidia_smi.ends_with('*')) continue;
    const auto field = parse_field(row.nvidia_smi);
    ASSERT_TRUE(field.ok()) << row.nvidia_smi;
    EXPECT_EQ(field->metric, row.metric);
    EXPECT_TRUE(field->nvidia_smi);
  }
}

TEST(QueryFields, OlderAndShorterSpellingsMeanTheSame) {
  const auto name_of = [](const char* name) { return parse_field(name)->name; };
  EXPECT_EQ(name_of("gpu_uuid"), "uuid");
  EXPECT_EQ(name_of("gpu_bus_id"), "pci.bus_id");
  EXPECT_EQ(name_of("clocks_throttle_reasons.active"), "clocks_event_reasons.active");
  EXPECT_EQ(name_of("clocks.gr"), "clocks.current.graphics");
  EXPECT_EQ(name_of("clocks.max.sm"), "clocks.max.sm");
  EXPECT_EQ(name_of("pcie.link.gen.current"), "pcie.link.gen.current");
}

TEST(QueryFields, APlaceOfAMemoryErrorIsOneElement) {
  const auto field = parse_field("ecc.errors.uncorrected.volatile.dram");
  ASSERT_TRUE(field.ok());
  EXPECT_EQ(field->metric, Metric::ecc_uncorrected_volatile_at);
  EXPECT_EQ(element_of(Dimension::location, field->of), "device_memory");
}

TEST(QueryFields, AnUnknownOneNamesTheNearest) {
  const auto field = parse_field("memory.totl");
  ASSERT_FALSE(field.ok());
  EXPECT_EQ(field.error().code, Errc::invalid);
  EXPECT_NE(field.error().message.find("\"memory.total\""), std::string::npos);
}

TEST(QueryFields, OnlyTheProbesOfTheFieldsAreRun) {
  EXPECT_EQ(probes_of_fields(*parse_fields({"utilization.gpu,temperature.gpu"})),
            (ProbeSet{Probe::utilization, Probe::temperature}));
  EXPECT_TRUE(probes_of_fields(*parse_fields({"name,index,timestamp"})).empty());
  EXPECT_EQ(probes_of_fields(*parse_fields({"fan.speed"})), ProbeSet{Probe::fans});
}

}  // namespace
}  // namespace gpuyard::cli
