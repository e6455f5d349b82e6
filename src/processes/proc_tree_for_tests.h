// A directory that looks like /proc to whoever reads processes there.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace gpuyard::processes {

class ProcTree {
 public:
  ProcTree() {
    std::string path = (std::filesystem::temp_directory_path() / "proc-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
  }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;
  ~ProcTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  struct Process {
    std::uint32_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::string command = "python3";
    char state = 'S';
    std::uint32_t parent = 1;
    std::uint32_t threads = 1;
    std::uint32_t real_uid = 1000;
    std::uint32_t uid = 1000;
    std::string cmdline = std::string("python3\0train.py\0", 17);
    std::string cgroup = "0::/user.slice/user-1000.slice/session-3.scope\n";
    std::string environment = "PATH=/bin";  // the last entry's end is added
    std::string numbers = {};               // in each PID namespace; "": this alone
  };

  void put(const Process& process) {
    const std::string place = at(process.pid);
    std::filesystem::create_directories(place);
    write(place + "/stat", stat_of(process));
    write(place + "/status",
          fmt::format("Name:\t{}\nState:\t{} (x)\nUid:\t{}\t{}\t{}\t{}\nGid:\t1\t1\t1\t1\n"
                      "NSpid:\t{}\n",
                      process.command, process.state, process.real_uid, process.uid, process.uid,
                      process.uid, numbers_of(process)));
    write(place + "/cmdline", process.cmdline);
    write(place + "/cgroup", process.cgroup);
    write(place + "/environ", process.environment + std::string(1, '\0'));
  }
  static std::string stat_of(const Process& process) {
    return fmt::format("{} ({}) {} {} 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 {} 0 {} 3133440 412\n",
                       process.pid, process.command, process.state, process.parent, process.threads,
                       process.start_ticks);
  }
  static std::string numbers_of(const Process& process) {
    return process.numbers.empty() ? std::to_string(process.pid) : process.numbers;
  }
  void remove(std::uint32_t pid) { std::filesystem::remove_all(at(pid)); }
  std::string at(std::uint32_t pid) const { return root_ + "/" + std::to_string(pid); }
  const std::string& root() const { return root_; }

  static void write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  std::string root_;
};

}  // namespace gpuyard::processes
