// Boost.JSON, compiled once: Debian's archive of it is not position independent, so no shared
// library can be made of it.
#include <boost/json/src.hpp>
