// Prints docs/metrics.md.
#include <cstdio>

#include "metrics/reference.h"

int main() {
  const std::string text = gpuyard::metrics::reference();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
