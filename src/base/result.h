// A value or an Error: the public Result, by the name under which the house knows it.
#pragma once

#include "base/error.h"
