#include "cli/smi/smi_details.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/read/devices_for_tests.h"
#include "cli/smi/smi_rows.h"

namespace gpuyard::cli {
namespace {

protocol::Device shown_device() {
  return device(0, {{Metric::temperature_core, 59},
                    {Metric::temperature_slowdown, 89},
                    {Metric::power_draw, 629'480},
                    {Metric::power_limit, 700'000},
                    {Metric::pcie_width, 16},
                    {Metric::pcie_tx, 360'448},
                    {Metric::throttle_reasons, 0x104},
                    {Metric::bar1_total, 131'072LL << 20U},
                    {Metric::rows_remapped_corrected, 0},
                    {Metric::row_remap_pending, 0}});
}

SmiReport report_of(protocol::Device shown, const std::string& version) {
  SmiReport report{{snapshot_with({std::move(shown)}), 4}, {}, WallTime()};
  report.queried.snapshot.driver.driver_version = version;
  return report;
}

std::string text_of(const protocol::Device& shown, const std::string& version = "535.129.03",
                    const std::string& display = "") {
  return smi_details_text(report_of(shown, version), display);
}

std::string xml_of(const protocol::Device& shown, const std::string& version = "535.129.03") {
  return smi_details_xml(report_of(shown, version));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST(SmiDetails, HeaderMatchesNvidiaSmi) {
  const std::string text = text_of(shown_device());
  EXPECT_TRUE(text.starts_with("\n==============NVSMI LOG==============\n\nTimestamp"));
  EXPECT_TRUE(contains(text,
                       "\nDriver Version                            : 535.129.03\n"
                       "CUDA Version                              : N/A\n\n"
                       "Attached GPUs                             : 4\n"
                       "GPU 00000000:1A:00.0\n"
                       "    Product Name                          : NVIDIA H100 80GB HBM3\n"))
      << text;
}

TEST(SmiDetails, ValuesHaveTheirUnits) {
  const std::string text = text_of(shown_device());
  for (const char* const line : {
           "        GPU Current Temp                  : 59 C\n",
           "        GPU Slowdown Temp                 : 89 C\n",
           "        Power Draw                        : 629.48 W\n",
           "                Current                   : 16x\n",
           "        Tx Throughput                     : 352 KB/s\n",
           "        Rx Throughput                     : N/A\n",
           "        SW Power Cap                      : Active\n",
           "            HW Thermal Slowdown           : Not Active\n",
           "        Display Clock Setting             : Active\n",
           "    BAR1 Memory Usage\n        Total                             : 131072 MiB\n",
           "        Bus                               : 0x1A\n",
       }) {
    EXPECT_TRUE(contains(text, line)) << line;
  }
}

TEST(SmiDetails, XmlHasSameValues) {
  const std::string xml = xml_of(shown_device());
  EXPECT_TRUE(xml.starts_with(
      "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n"
      "<nvidia_smi_log>\n\t<timestamp>"))
      << xml;
  for (const char* const part : {
           "\t<attached_gpus>4</attached_gpus>\n\t<gpu id=\"00000000:1A:00.0\">\n",
           "\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>\n",
           "\t\t\t<gpu_temp>59 C</gpu_temp>\n",
           "\t\t\t<power_draw>629.48 W</power_draw>\n",
           "\t\t\t<pci_bus>1A</pci_bus>\n",
           "\t\t\t\t\t<current_link_width>16x</current_link_width>\n",
           ("\t\t<processes>\n\t\t</processes>\n"
            "\t\t<accounted_processes>\n\t\t</accounted_processes>\n\t</gpu>\n</nvidia_smi_log>\n"),
       }) {
    EXPECT_TRUE(contains(xml, part)) << part << "\n" << xml;
  }
  EXPECT_TRUE(contains(xml_of(shown_device(), "580.65.06"), "nvsmi_device_v13.dtd"));
  EXPECT_TRUE(contains(xml_of(shown_device(), "575.57.08"), "nvsmi_device_v12.dtd"));
}

TEST(SmiDetails, UnsupportedRowRemapperIsOneLine) {
  EXPECT_TRUE(contains(text_of(device(0, {})),
                       "    Remapped Rows                         : N/A\n    Temperature\n"));
  EXPECT_TRUE(
      contains(xml_of(device(0, {})), "<remapped_rows>N/A</remapped_rows>\n\t\t<temperature>"));
  EXPECT_TRUE(contains(text_of(shown_device()),
                       "    Remapped Rows\n        Correctable Error                 : 0\n"));
}

TEST(SmiDetails, LostGpuShowsReason) {
  protocol::Device lost = device(0, {});
  lost.missing["power_draw_w"] = {MissingReason::device_lost, "GPU is lost"};
  EXPECT_TRUE(contains(text_of(lost), "        Power Draw                        : GPU is lost\n"));
}

TEST(SmiDetails, OnlySelectedSectionsAreShown) {
  const std::string text = text_of(shown_device(), "535.129.03", "temperature,PIDS");
  EXPECT_TRUE(contains(text, "GPU 00000000:1A:00.0\n    Temperature\n"));
  EXPECT_TRUE(contains(text, "    Processes                             : None\n"));
  EXPECT_FALSE(contains(text, "Product Name"));
  EXPECT_FALSE(contains(text, "Power"));
  EXPECT_TRUE(check_smi_sections("MEMORY,power"));
  EXPECT_EQ(check_smi_sections("MEMROY").error().code, Errc::invalid);
  EXPECT_TRUE(contains(check_smi_sections("MEMROY").error().message, "\"MEMORY\""));
}

TEST(SmiDetails, ProcessesAreListedAndEscaped) {
  SmiReport report = report_of(shown_device(), "580.65.06");
  ListedProcess process;
  process.pid = 4711;
  process.kind = ProcessKind::compute_and_graphics;
  process.name = "a<b>&c";
  process.memory_bytes = 2 << 20U;
  report.processes.processes = {process};
  EXPECT_TRUE(contains(smi_details_text(report),
                       "    Processes\n"
                       "        GPU instance ID                   : N/A\n"
                       "        Compute instance ID               : N/A\n"
                       "        Process ID                        : 4711\n"
                       "            Type                          : C+G\n"
                       "            Name                          : a<b>&c\n"
                       "            Used GPU Memory               : 2 MiB\n"));
  EXPECT_TRUE(contains(smi_details_xml(report),
                       "\t\t\t\t<process_name>a&lt;b&gt;&amp;c</process_name>\n"
                       "\t\t\t\t<used_memory>2 MiB</used_memory>\n\t\t\t</process_info>\n"));
}

TEST(SmiDetails, EveryFieldOfTheTableIsKnown) {
  for (const SmiRow& row : smi_rows()) {
    EXPECT_TRUE(row.field.empty() || parse_field(row.field)) << row.field;
    EXPECT_FALSE(row.label.empty() && row.tag.empty());
    EXPECT_TRUE(row.until == 0 || row.since < row.until) << row.label;
  }
  EXPECT_FALSE(smi_details_probes().empty());
}

// The labels of a GPU, with their indentation, without their values.
std::vector<std::string> labels_of(const std::string& text) {
  std::vector<std::string> labels;
  std::string_view rest = std::string_view(text).substr(text.find("\nGPU ") + 1);
  take_until('\n', rest);
  while (!rest.empty()) {
    std::string_view line = take_until('\n', rest);
    if (!line.starts_with("    ")) break;
    line = line.substr(4, line.find(" : ") - 4);
    labels.emplace_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return labels;
}

// The labels that nvidia-smi of the driver prints, as published outputs have them.
TEST(SmiDetails, LabelsMatchDrivers535And580) {
  for (const char* const branch : {"535", "580"}) {
    const auto wanted = read_file(
        std::string(GPUYARD_SOURCE_DIR "/tests/data/nvidia_smi/details_") + branch + ".txt",
        std::size_t{1} << 20U);
    ASSERT_TRUE(wanted) << branch;
    std::string labels;
    for (const std::string& label : labels_of(text_of(shown_device(), std::string(branch) + ".1")))
      labels += label + "\n";
    EXPECT_EQ(labels, *wanted) << branch;
  }
}

// The elements of a GPU, in the form "pci(pci_bus link(gen))".
std::string elements_of(std::string_view xml) {
  xml.remove_prefix(xml.find('\n', xml.find("<gpu id=")) + 1);
  xml = xml.substr(0, xml.find("\t</gpu>"));
  std::string elements;
  while (!xml.empty()) {
    const std::string_view line = trim(take_until('\n', xml));
    if (line.starts_with("</")) {
      elements += elements.ends_with('(') ? "" : ")";
      if (elements.ends_with('(')) elements.pop_back();
    } else if (line.starts_with('<')) {
      const bool closed = line.find("</") != line.npos;
      elements += elements.empty() || elements.ends_with('(') ? "" : " ";
      elements.append(line.substr(1, line.find('>') - 1)).append(closed ? "" : "(");
    }
  }
  return elements;
}

std::string on_one_line(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return std::string(trim(text));
}

TEST(SmiDetails, XmlElementsMatchDrivers535And580) {
  for (const char* const branch : {"535", "580"}) {
    const auto wanted =
        read_file(std::string(GPUYARD_SOURCE_DIR "/tests/data/nvidia_smi/xml_") + branch + ".txt",
                  std::size_t{1} << 20U);
    ASSERT_TRUE(wanted) << branch;
    EXPECT_EQ(elements_of(xml_of(shown_device(), std::string(branch) + ".1")), on_one_line(*wanted))
        << branch;
  }
}

}  // namespace
}  // namespace gpuyard::cli
