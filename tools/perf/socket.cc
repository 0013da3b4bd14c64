#include "tools/perf/socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::tools::perf {
namespace {

constexpr int wait_for_client_ms = 10 * 60 * 1000;
constexpr int connect_ms = 3000;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(const char* host, std::uint16_t port, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found)) {
    why = gai_strerror(error);
    found = nullptr;
  }
  return {found, freeaddrinfo};
}

// A host that vanishes is noticed within half a minute.
void tune(int socket) {
  const auto set = [&](int level, int name, int value) {
    setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

bool is_ready(int socket, short events, int limit_ms) {
  pollfd one{socket, events, 0};
  return poll(&one, 1, limit_ms) == 1;
}

// IPv6 takes IPv4, too; a kernel without IPv6 has IPv4 alone.
int listen_on(std::uint16_t port, std::string& why) {
  const int yes = 1, no = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = htons(port);
    const bool six = family == AF_INET6;
    const int made = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (six) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const auto* address =
        six ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
    if (made >= 0 && bind(made, address, six ? sizeof any6 : sizeof any4) == 0 &&
        listen(made, 1) == 0) {
      return made;
    }
    why = std::strerror(errno);
    close(made);
  }
  return -1;
}

std::string name_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> name{};
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  const int error =
      getnameinfo(generic, size, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? name.data() : "a host";
}

}  // namespace

int listen_for_client(std::uint16_t port, std::string& why) {
  const int listener = listen_on(port, why);
  if (listener < 0) {
    why = fmt::format("cannot listen on TCP port {}: {}; --listen takes another one", port, why);
  }
  return listener;
}

bool take_client(int listener, std::string& client, std::string& why) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const bool came = is_ready(listener, POLLIN, wait_for_client_ms);
  const int client_socket =
      came ? accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC) : -1;
  close(listener);
  if (client_socket < 0) {
    why = came ? std::strerror(errno)
               : fmt::format("nobody came within {} min", wait_for_client_ms / 60000);
    return false;
  }
  tune(client_socket);
  client = name_of(from, size);
  dup2(client_socket, STDIN_FILENO);
  dup2(client_socket, STDOUT_FILENO);
  close(client_socket);
  return true;
}

int connect_to_server(const std::string& host, std::uint16_t port, std::string& why) {
  const Addresses addresses = addresses_of(host.c_str(), port, 0, why);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const int made = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = made < 0 || connect(made, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      if (!is_ready(made, POLLOUT, connect_ms)) {
        error = ETIMEDOUT;
      } else if (getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
      }
    }
    if (made >= 0 && error == 0) {
      tune(made);
      return made;
    }
    why = std::strerror(made < 0 ? errno : error);
    if (made >= 0) close(made);
  }
  return -1;
}

}  // namespace weir::tools::perf
