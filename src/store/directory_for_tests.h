// A directory for one test, gone with it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace gpuyard::store::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path_ = std::filesystem::temp_directory_path() / "gpuyard-store-XXXXXX";
    path_ = ::mkdtemp(path_.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gpuyard::store::testing
