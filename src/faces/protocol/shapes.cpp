// The shapes of the protocol's records: every other source refers to them.
#define GPUYARD_SHAPES_HERE

#include "faces/protocol/routes.h"
