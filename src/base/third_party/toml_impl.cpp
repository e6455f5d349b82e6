// toml++, compiled once: including it then takes a fifth of the time.
#define TOML_IMPLEMENTATION
#include "base/third_party/toml.h"
