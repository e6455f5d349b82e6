// Documents that tests write from the program's own tables, so that the two never differ.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/files.h"

namespace gpuyard {

// The checkout in which the running test was built, "." if it was linked elsewhere. The compiler is
// not given this path: its cache would serve no other checkout.
inline std::string source_directory() {
  for (std::filesystem::path place = program_path(); place.has_relative_path();) {
    place = place.parent_path();
    if (std::filesystem::exists(place / "CMakePresets.json")) return place.string();
  }
  return ".";
}

// The content of a file of docs/.
inline std::string document(const std::string& name) {
  const std::ifstream file(source_directory() + "/docs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Checks that the document is this text. With GPUYARD_WRITE_GOLDEN in the environment it is written
// first.
inline void expect_document(const std::string& name, const std::string& text) {
  if (std::getenv("GPUYARD_WRITE_GOLDEN") != nullptr) {
    std::ofstream(source_directory() + "/docs/" + name) << text;
  }
  EXPECT_EQ(document(name), text) << "GPUYARD_WRITE_GOLDEN=1 writes it";
}

}  // namespace gpuyard
