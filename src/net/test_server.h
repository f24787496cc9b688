// Test support: an HTTP server on loopback whose answers are given as raw bytes.
#ifndef CHIMERE_NET_TEST_SERVER_H_
#define CHIMERE_NET_TEST_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace chimere::net {

/// Answers every connection with what `answer` returns for its request (head and all), then closes
/// it. An answer may be a generator: called until it returns an empty piece or the client leaves.
class TestServer {
 public:
  using Pieces = std::function<std::string()>;
  using Answer = std::function<Pieces(const std::string& request)>;

  /// Listens at 127.0.0.1, on a free port.
  explicit TestServer(Answer answer);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url(const std::string& host, const std::string& path = "/") const {
    return "http://" + host + ":" + std::to_string(port_) + path;
  }
  /// The requests so far.
  std::vector<std::string> requests() const;

 private:
  void serve();
  void answer(int connection);

  Answer answer_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// One whole answer.
TestServer::Pieces whole(std::string bytes);
/// A response with this status, headers ("Name: value\r\n" each) and body.
TestServer::Pieces response(int status, const std::string& headers, const std::string& body);

}  // namespace chimere::net

#endif  // CHIMERE_NET_TEST_SERVER_H_
