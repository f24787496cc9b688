// How an embedding model pools, by the files of sentence-transformers.
#ifndef CHIMERE_CONVERT_POOLING_H_
#define CHIMERE_CONVERT_POOLING_H_

#include <string>

#include "base/result.h"
#include "convert/family.h"

namespace chimere::convert {

/// Writes "pooling_type" if modules.json of the folder names a Pooling module. Errors:
/// kInvalidData, kUnsupported (other poolings than mean, first and last token).
Status write_pooling(const std::string& folder, KeyWriter& out);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_POOLING_H_
