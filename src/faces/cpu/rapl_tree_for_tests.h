// A directory that looks like /sys/class/powercap to readers of CPU energy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cpu {

class RaplTree {
 public:
  RaplTree() {
    // Other entries of a real machine.
    for (const char* name : {"intel-rapl", "intel-rapl:0:0", "intel-rapl-mmio:0"}) {
      std::filesystem::create_directories(root_.in(name));
    }
  }

  const std::string& root() const { return root_.path(); }
  std::string package(unsigned number) const {
    return fmt::format("{}/intel-rapl:{}", root(), number);
  }
  std::string subzone(unsigned number, unsigned place) const {
    return fmt::format("{}/intel-rapl:{}:{}", package(number), number, place);
  }

  void put_package(unsigned number, std::int64_t energy_uj) {
    put_zone(package(number), fmt::format("package-{}", number), energy_uj);
  }
  // As on a server: the cores are zone 0, the memory zone 1.
  void put_dram(unsigned number, std::int64_t energy_uj) {
    put_zone(subzone(number, 0), "core", 1);
    put_zone(subzone(number, 1), "dram", energy_uj);
  }
  static void put_zone(const std::string& zone, std::string_view name, std::int64_t energy_uj) {
    std::filesystem::create_directories(zone);
    write(zone + "/name", fmt::format("{}\n", name));
    write(zone + "/max_energy_range_uj", fmt::format("{}\n", kRange));
    set(zone, energy_uj);
  }
  static void set(const std::string& zone, std::int64_t energy_uj) {
    write(zone + "/energy_uj", fmt::format("{}\n", energy_uj));
  }
  static void write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  static constexpr std::int64_t kRange = 262'143'328'850;  // that of Intel's packages

 private:
  const ScratchDirectory root_;
};

}  // namespace gpuyard::cpu
