#include "cli/smi/smi_help.h"

#include <set>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/read/query_fields.h"
#include "cli/smi/smi_fields.h"

namespace gpuyard::cli {
namespace {

// The names as an exporter reads them: those of the lines that begin with a quotation mark.
std::vector<std::string> quoted_names(const std::string& help) {
  std::vector<std::string> names;
  std::string_view rest = help;
  while (!rest.empty()) {
    std::string_view line = take_until('\n', rest);
    if (!line.starts_with('"')) continue;
    line.remove_prefix(1);
    names.emplace_back(take_until('"', line));
  }
  return names;
}

TEST(SmiHelp, EachFieldHasQuotedNameAndDescription) {
  const std::string help = smi_gpu_field_help();
  EXPECT_TRUE(
      help.starts_with("List of valid properties to query for the switch \"--query-gpu\":\n\n"
                       "\"timestamp\"\nTime of the query, in local time.\n\n\"driver_version\"\n"));
  EXPECT_NE(help.find("\n\"name\" or \"gpu_name\"\nProduct name of the GPU.\n\n"),
            std::string::npos);
  EXPECT_NE(help.find("\n\"clocks_event_reasons.active\" or \"clocks_throttle_reasons.active\"\n"),
            std::string::npos);
  EXPECT_NE(help.find("\n\"pci.device_id\"\nNot measured by gpuyard: always [N/A].\n"),
            std::string::npos);
}

TEST(SmiHelp, EveryNameIsAFieldAndListedOnce) {
  const auto names = quoted_names(smi_gpu_field_help());
  EXPECT_GT(names.size(), 200U);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    const auto field = parse_field(name);
    ASSERT_TRUE(field) << name;
    EXPECT_EQ(field->name, name) << "the header has this name";
    EXPECT_TRUE(field->nvidia_smi) << name;
  }
}

// A field that is measured by another name would be in the list twice, once as [N/A].
TEST(SmiHelp, EveryMeasuredFieldIsListed) {
  for (const Field& field : known_fields()) {
    if (field.nvidia_smi && field.what != Field::ValueKind::element) {
      EXPECT_NE(find_smi_field(field.name), nullptr) << field.name;
    }
  }
}

TEST(SmiHelp, ProcessAndRowFieldsAreListedSeparately) {
  EXPECT_EQ(quoted_names(smi_process_field_help()),
            (std::vector<std::string>{"timestamp", "gpu_name", "gpu_bus_id", "gpu_serial",
                                      "gpu_uuid", "pid", "process_name", "used_gpu_memory"}));
  const auto rows = quoted_names(smi_row_field_help());
  EXPECT_EQ(rows.size(), smi_row_fields().size());
  for (const std::string& name : rows) EXPECT_TRUE(parse_field(name)) << name;
}

TEST(SmiFields, UnmeasuredFieldHasUnitOfNvidiaSmi) {
  EXPECT_EQ(unit_of(*parse_field("protected_memory.total")), "MiB");
  EXPECT_EQ(unit_of(*parse_field("clocks.applications.gr")), "MHz");
  EXPECT_EQ(unit_of(*parse_field("module.power.limit")), "W");
  EXPECT_EQ(unit_of(*parse_field("pci.device_id")), "");
}

}  // namespace
}  // namespace gpuyard::cli
