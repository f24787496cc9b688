// The clients' n-gram memories behind the server's routes.
#ifndef CHIMERE_APPS_CHIMERE_SERVED_MEMORIES_H_
#define CHIMERE_APPS_CHIMERE_SERVED_MEMORIES_H_

#include "runtime/engram_memories.h"
#include "serving/served_model.h"
#include "text/tokenizer.h"

namespace chimere::app {

/// Both must outlive the result.
serving::EngramTables served_memories(runtime::EngramMemories& memories,
                                      const text::Tokenizer& tokenizer);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SERVED_MEMORIES_H_
