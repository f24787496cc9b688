// One file over an unreliable connection.
#ifndef CHIMERE_HUB_DOWNLOAD_H_
#define CHIMERE_HUB_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/http.h"

namespace chimere::hub {

struct Download {
  std::string url;
  std::string path;  ///< where the file belongs
  int64_t size = 0;
  std::string sha256;
};

/// Calls attempt() until it succeeds, fails for good, or has failed six times in a row without
/// progress() growing in between; waits longer and longer, or as long as the host asks for
/// (Retry-After, at most two minutes). Turns HTTP errors into sentences. `what` is the thing asked
/// for: "the repository a/b".
Result<HttpResponse> persist(HttpClient& client, const std::string& what,
                             const std::function<HttpResult()>& attempt,
                             const std::function<int64_t()>& progress);

/// Fetches the file, continuing where an earlier call stopped, checks its SHA-256 and publishes it,
/// with its checksum beside it. `received` is told of every piece, with a negative number when what
/// was there has to be fetched again. Errors: kOutOfSpace, kInvalidData, kIo, kCancelled,
/// kNotFound; what has come is kept, unless the checksum is wrong.
Status download(HttpClient& client, const Download& file,
                const std::function<void(int64_t)>& received);

/// The file's SHA-256. Errors: kIo.
Result<std::string> hash_file(const std::string& path);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_DOWNLOAD_H_
