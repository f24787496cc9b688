#include "net/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace chimere::net {
namespace {

bool wait_for(int socket, short events) {
  pollfd entry{socket, events, 0};
  return poll(&entry, 1, 20) > 0;
}

}  // namespace

TestServer::TestServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, generic, size) == 0 && listen(listener_, 16) == 0 &&
      getsockname(listener_, generic, &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
  thread_ = std::thread([this] { serve(); });
}

TestServer::~TestServer() {
  stop_ = true;
  thread_.join();
  close(listener_);
}

std::vector<std::string> TestServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::serve() {
  while (!stop_) {
    if (!wait_for(listener_, POLLIN)) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    answer(connection);
    close(connection);
  }
}

void TestServer::answer(int connection) {
  std::string request;
  while (!stop_ && request.find("\r\n\r\n") == std::string::npos) {
    if (!wait_for(connection, POLLIN)) continue;
    char buffer[4096];
    const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
    if (count <= 0) return;
    request.append(buffer, static_cast<size_t>(count));
  }
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const Pieces pieces = answer_(request);
  for (std::string piece = pieces(); !piece.empty() && !stop_; piece = pieces()) {
    for (size_t sent = 0; sent < piece.size() && !stop_;) {
      if (!wait_for(connection, POLLOUT)) continue;
      const ssize_t count =
          send(connection, piece.data() + sent, piece.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
}

TestServer::Pieces whole(std::string bytes) {
  return [bytes = std::move(bytes)]() mutable { return std::exchange(bytes, {}); };
}

TestServer::Pieces response(int status, const std::string& headers, const std::string& body) {
  return whole("HTTP/1.1 " + std::to_string(status) + " -\r\n" + headers + "Content-Length: " +
               std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body);
}

}  // namespace chimere::net
