// A directory with files that hold secrets, for as long as a test runs.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace gpuyard::notify {

class SecretDirectory {
 public:
  SecretDirectory() {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no directory";
  }
  ~SecretDirectory() { std::filesystem::remove_all(path_); }
  SecretDirectory(const SecretDirectory&) = delete;
  SecretDirectory& operator=(const SecretDirectory&) = delete;

  // The path of a file with that text.
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    std::string path = path_ + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_ = "/tmp/gpuyard-notify-XXXXXX";
};

}  // namespace gpuyard::notify
