// Boost.JSON, compiled once: Debian's archive of it is not position independent, so it cannot be
// part of a shared library.
#include <boost/json/src.hpp>
