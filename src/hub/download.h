// Downloads one file over an unreliable connection.
#ifndef CHIMERE_HUB_DOWNLOAD_H_
#define CHIMERE_HUB_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "net/http_client.h"

namespace chimere::hub {

struct Download {
  std::string url;
  std::string path;  ///< final location of the file
  int64_t size = 0;
  std::string sha256;
};

/// Calls attempt() until it succeeds, fails permanently, or has failed six times in a row without
/// progress() growing. Waits with exponential back-off, or as long as the host asks for
/// (Retry-After, at most two minutes). Turns HTTP errors into sentences. `what` names the object:
/// "the repository a/b".
Result<net::HttpResponse> persist(net::HttpClient& client, const std::string& what,
                                  const std::function<net::HttpResult()>& attempt,
                                  const std::function<int64_t()>& progress);

/// Downloads the file, resuming where an earlier call stopped, verifies its SHA-256 and renames it
/// to its final name, with its checksum beside it. `received` is called with the size of every
/// piece, and with a negative number when earlier bytes must be downloaded again. Errors:
/// kOutOfSpace, kInvalidData, kIo, kCancelled, kNotFound; received bytes are kept, unless the
/// checksum is wrong.
Status download(net::HttpClient& client, const Download& file,
                const std::function<void(int64_t)>& received);

/// The file's SHA-256. Errors: kIo.
Result<std::string> hash_file(const std::string& path);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_DOWNLOAD_H_
