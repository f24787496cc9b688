// Hyper-parameters of a model file that its architecture does not read.
#ifndef CHIMERE_MODEL_UNREAD_KEYS_H_
#define CHIMERE_MODEL_UNREAD_KEYS_H_

#include "base/result.h"
#include "model/keys.h"

namespace chimere::model {

/// Call it when the architecture has read its keys. A key that it did not read is accepted if it
/// cannot change the model's answers: always (names, sizes of parts that the model does not have),
/// or because of its value (a scale of 1, a window as long as the context). Errors: kUnsupported,
/// naming the key: the answers would be wrong without it.
Status check_unread_keys(const Keys& keys);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_UNREAD_KEYS_H_
