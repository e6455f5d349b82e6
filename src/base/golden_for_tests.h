// Documents that tests write from the program's own tables, so that they never say anything else.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace gpuyard {

// The content of a file of docs/.
inline std::string document(const std::string& name) {
  const std::ifstream file(GPUYARD_SOURCE_DIR "/docs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The document is this text. With GPUYARD_WRITE_GOLDEN in the environment it is written first.
inline void expect_document(const std::string& name, const std::string& text) {
  if (std::getenv("GPUYARD_WRITE_GOLDEN") != nullptr) {
    std::ofstream(GPUYARD_SOURCE_DIR "/docs/" + name) << text;
  }
  EXPECT_EQ(document(name), text) << "GPUYARD_WRITE_GOLDEN=1 writes it anew";
}

}  // namespace gpuyard
