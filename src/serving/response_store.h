// Responses that clients may continue or retrieve later.
#ifndef CHIMERE_SERVING_RESPONSE_STORE_H_
#define CHIMERE_SERVING_RESPONSE_STORE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "protocol/requests.h"

namespace chimere::serving {

struct StoredResponse {
  std::vector<text::ChatMessage> messages;  ///< the conversation so far, without instructions
  std::string input;                        ///< of the request, as JSON text
  std::string body;                         ///< the response
};

/// In memory, and bounded. When it is full, the oldest response of the owner that holds the most
/// bytes is dropped, so that no owner can displace the responses of the others. Any thread.
class ResponseStore {
 public:
  /// `bytes`: 0: nothing is stored.
  explicit ResponseStore(int64_t bytes) : limit_(bytes) {}

  bool enabled() const { return limit_ > 0; }
  /// Drops it at once if it is larger than the store.
  void put(const std::string& owner, const std::string& id, StoredResponse response);
  /// nullptr: the owner has no such response (any more).
  std::shared_ptr<const StoredResponse> find(const std::string& owner, const std::string& id);
  /// False if there was none.
  bool erase(const std::string& owner, const std::string& id);
  int64_t bytes();

 private:
  struct Entry {
    std::string id;
    int64_t bytes = 0;
    std::shared_ptr<const StoredResponse> response;
  };
  struct Owner {
    std::list<Entry> entries;  ///< oldest first
    int64_t bytes = 0;
  };
  void drop(std::map<std::string, Owner>::iterator owner, std::list<Entry>::iterator entry);

  const int64_t limit_;
  Mutex mutex_;
  std::map<std::string, Owner> owners_;
  int64_t bytes_ = 0;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_RESPONSE_STORE_H_
