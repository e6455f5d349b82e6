// The one way to include Asio in this folder, so that every file sees it configured the same. Its
// functions are compiled once, in asio_impl.cpp. For .cpp files and the folder's inner headers
// only.
#pragma once

#ifdef BOOST_ASIO_DETAIL_CONFIG_HPP
#error "include http/asio.h before the headers of Asio: it configures them"
#endif
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_ASIO_NO_DEPRECATED

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace gpuyard::http {
namespace asio = boost::asio;
}
