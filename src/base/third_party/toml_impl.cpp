// toml++, compiled once: including it then costs a fifth.
#define TOML_IMPLEMENTATION
#include "base/third_party/toml.h"
