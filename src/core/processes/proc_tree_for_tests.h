// A directory with files like those of processes in /proc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::processes {

inline constexpr std::uint32_t kAnna = 1000;
inline constexpr std::uint32_t kBen = 1001;

class ProcTree {
 public:
  struct Process {
    std::uint32_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::string command = "python3";
    char state = 'S';
    std::uint32_t parent = 1;
    std::uint32_t threads = 1;
    std::uint32_t real_uid = kAnna;
    std::uint32_t uid = kAnna;
    std::optional<std::uint32_t> saved_uid = {};  // empty: the same as uid
    std::string cmdline = std::string("python3\0train.py\0", 17);
    std::string cgroup = "0::/user.slice/user-1000.slice/session-3.scope\n";
    std::string environment = "PATH=/bin";  // the last entry's end is added
    std::string numbers = {};               // in each PID namespace; "": only in this one
    bool loading = false;                   // the program is loading: no environment yet
  };

  void put(const Process& process) {
    const std::string place = std::to_string(process.pid);
    root_.write(place + "/stat", stat_of(process));
    root_.write(
        place + "/status",
        fmt::format("Name:\t{}\nState:\t{} (x)\nUid:\t{}\t{}\t{}\t{}\nGid:\t1\t1\t1\t1\n"
                    "NSpid:\t{}\n",
                    process.command, process.state, process.real_uid, process.uid,
                    process.saved_uid.value_or(process.uid), process.uid, numbers_of(process)));
    root_.write(place + "/cmdline", process.cmdline);
    root_.write(place + "/cgroup", process.cgroup);
    root_.write(place + "/environ",
                process.loading ? "" : process.environment + std::string(1, '\0'));
  }
  // Writes the environment, and then the stat file that says so, as the kernel does.
  void load(const Process& process) {
    write(at(process.pid) + "/environ", process.environment + std::string(1, '\0'));
    write(at(process.pid) + "/stat.new", stat_of(process));
    std::filesystem::rename(at(process.pid) + "/stat.new", at(process.pid) + "/stat");
  }
  static std::string stat_of(const Process& process) {
    return fmt::format(
        "{} ({}) {} {} 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 {} 0 {} 3133440 412 "
        "18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 {} 0\n",
        process.pid, process.command, process.state, process.parent, process.threads,
        process.start_ticks, process.loading ? 0 : 140'728'065'290'201);
  }
  static std::string numbers_of(const Process& process) {
    return process.numbers.empty() ? std::to_string(process.pid) : process.numbers;
  }
  void remove(std::uint32_t pid) { std::filesystem::remove_all(at(pid)); }
  std::string at(std::uint32_t pid) const { return root_.in(std::to_string(pid)); }
  const std::string& root() const { return root_.path(); }

  static void write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  const ScratchDirectory root_;
};

}  // namespace gpuyard::processes
