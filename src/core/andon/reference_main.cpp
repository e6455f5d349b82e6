// Prints docs/andon.md.
#include <cstdio>

#include "andon/reference.h"

int main() {
  const std::string text = gpuyard::andon::reference();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
