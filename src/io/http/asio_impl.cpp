// The body of Asio's functions, once for the whole program.
#include "io/http/asio.h"

#include <boost/asio/impl/src.hpp>
