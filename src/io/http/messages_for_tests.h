// Requests that tests send to servers, and the answers.
#pragma once

#include <string_view>

namespace gpuyard::http {

inline constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
// Our server's answer, and the shortest one of any server.
inline constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\nServer: gpuyard\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
inline constexpr const char* kBareHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

}  // namespace gpuyard::http
