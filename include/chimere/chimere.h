/* libchimere: hybrid language models in a program of your own. docs/library.md is the manual.
 *
 * Handles are opaque. Functions return a status; chimere_last_error() explains the last failure of
 * the calling thread. Texts are UTF-8; sizes are in bytes, without a terminating zero. A function
 * that fills an array takes its capacity and always sets *size to what is needed: with a capacity
 * of 0 it is a query and succeeds, with one that is too small it fails and writes nothing.
 *
 * Threads: chimere_runtime and chimere_model may be used by any number of threads at the same time.
 * A chimere_sequence belongs to one call at a time (CHIMERE_BUSY otherwise). Freeing a handle while
 * a call uses it is an error of the caller; freeing a runtime or model whose models or sequences
 * are still alive is not. Callbacks run on the thread that called the function.
 *
 * Stability: functions and status values are only added, structs only grow at their end. Structs
 * that the caller allocates begin with struct_size, which the caller sets to sizeof the struct; the
 * library writes no more than that. Structs that the library passes to a callback begin with the
 * same field, set by the library. An incompatible change would change the library's soname.
 */
#ifndef CHIMERE_CHIMERE_H_
#define CHIMERE_CHIMERE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CHIMERE_API __attribute__((visibility("default")))
#else
#define CHIMERE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Number of the interface that this header declares; grows when functions or fields are added. */
#define CHIMERE_API_VERSION 1

/* Version of the interface of the library that was loaded: at least that of the header, if the
 * program was linked to the same soname. */
CHIMERE_API uint32_t chimere_api_version(void);
/* Version of the program as a whole, such as "0.1.0". */
CHIMERE_API const char* chimere_version(void);

typedef enum chimere_status {
  CHIMERE_OK = 0,
  CHIMERE_INVALID_ARGUMENT = 1,  /* an argument or option is invalid */
  CHIMERE_INVALID_DATA = 2,      /* a file or saved sequence is damaged or of an unknown type */
  CHIMERE_NOT_FOUND = 3,         /* a file, model or option does not exist */
  CHIMERE_OUT_OF_MEMORY = 4,     /* a stated budget or the machine's memory is too small */
  CHIMERE_OUT_OF_SPACE = 5,      /* a disk is full */
  CHIMERE_UNSUPPORTED = 6,       /* valid, but not possible here */
  CHIMERE_IO = 7,                /* an operating-system call failed */
  CHIMERE_CANCELLED = 8,         /* the model is being unloaded */
  CHIMERE_BUSY = 9,              /* another call uses this sequence */
  CHIMERE_BUFFER_TOO_SMALL = 10, /* *size says how large it must be */
  CHIMERE_INTERNAL = 11          /* an error of the library itself */
} chimere_status;

/* A sentence about the last failure of a function on this thread; empty if there was none. Valid
 * until the thread's next call. */
CHIMERE_API const char* chimere_last_error(void);

typedef struct chimere_runtime chimere_runtime;
typedef struct chimere_model chimere_model;
typedef struct chimere_sequence chimere_sequence;

/* A setting by the name of its flag without dashes ("temp", "ctx", "backend", ...); `chimere run
 * --help` lists them. Later options override earlier ones. */
typedef struct chimere_option {
  const char* name;
  const char* value;
} chimere_option;

/* ---- Runtime: the threads, the GPU and the memory that models share ---- */

/* Options: "threads" (0: as many as CPUs), "gpu" (number of the GPU, 0), "state-memory" (host
 * memory for the states of all models, such as "8GiB"; default: what is free now). */
CHIMERE_API chimere_status chimere_runtime_create(const chimere_option* options, size_t n_options,
                                                  chimere_runtime** runtime);
CHIMERE_API void chimere_runtime_free(chimere_runtime* runtime); /* NULL is allowed */

/* ---- Models ---- */

enum { CHIMERE_LOG_NOTICE = 0, CHIMERE_LOG_WARNING = 1 };
/* One sentence about what loading does. */
typedef void (*chimere_log_callback)(void* user_data, int level, const char* text);

/* Loads a model that generates text, or an embedding model. `name`: a path to a GGUF file, a name
 * in the model folder, or NULL for the shipped model chimere-mini. `options` are settings of the
 * model, its prefix cache and its engine; those of sampling become the defaults of generations.
 * "prefix-disk" is 0 unless given: nothing is written to disk. The environment and the
 * configuration file are not read. `log` may be NULL. */
CHIMERE_API chimere_status chimere_model_load(chimere_runtime* runtime, const char* name,
                                              const chimere_option* options, size_t n_options,
                                              chimere_log_callback log, void* user_data,
                                              chimere_model** model);
/* Unloads the model when its last sequence is freed too. NULL is allowed. */
CHIMERE_API void chimere_model_free(chimere_model* model);

typedef struct chimere_model_info {
  size_t struct_size;
  int64_t context;    /* most tokens of a sequence, or of a text to embed */
  int64_t vocabulary; /* number of tokens */
  int64_t dimensions; /* elements of an embedding; 0: the model generates text */
  int32_t bos;        /* token, or -1 */
  int32_t eos;        /* token, or -1 */
  int32_t on_gpu;     /* 1: computed on a GPU */
  int32_t has_chat_template;
} chimere_model_info;
CHIMERE_API chimere_status chimere_model_get_info(chimere_model* model, chimere_model_info* info);

/* ---- Text and tokens ---- */

/* Bits of `flags`. */
enum {
  CHIMERE_TOKENIZE_BOS = 1,      /* begin with the BOS token if the model uses one */
  CHIMERE_TOKENIZE_SPECIAL = 2,  /* the text of a control token stands for that token */
  CHIMERE_DETOKENIZE_SPECIAL = 1 /* include the text of control tokens */
};
CHIMERE_API chimere_status chimere_tokenize(chimere_model* model, const char* text,
                                            size_t text_size, uint32_t flags, int32_t* tokens,
                                            size_t capacity, size_t* size);
/* The bytes need not be whole characters, and are not terminated by a zero. */
CHIMERE_API chimere_status chimere_detokenize(chimere_model* model, const int32_t* tokens,
                                              size_t n_tokens, uint32_t flags, char* text,
                                              size_t capacity, size_t* size);

typedef struct chimere_message {
  const char* role;    /* "system", "user", "assistant", ... */
  const char* content; /* terminated by a zero; never becomes control tokens */
} chimere_message;
/* The prompt of a conversation, with the header of the assistant's turn. The option "reasoning"
 * decides whether the template asks for reasoning. */
CHIMERE_API chimere_status chimere_apply_chat_template(chimere_model* model,
                                                       const chimere_message* messages,
                                                       size_t n_messages,
                                                       const chimere_option* options,
                                                       size_t n_options, int32_t* tokens,
                                                       size_t capacity, size_t* size);

/* ---- Generation ---- */

/* A sequence is a prompt and what was generated from it. */
CHIMERE_API chimere_status chimere_sequence_create(chimere_model* model, const int32_t* tokens,
                                                   size_t n_tokens, chimere_sequence** sequence);
CHIMERE_API void chimere_sequence_free(chimere_sequence* sequence); /* NULL is allowed */

typedef struct chimere_token {
  size_t struct_size;
  int32_t id;
  float logprob;    /* with the option "logprobs" = "1", else 0 */
  const char* text; /* whole characters that are now certain; may lag behind the token */
  size_t text_size;
  const char* reasoning; /* with the option "split" = "1", else empty: `text` is the answer's */
  size_t reasoning_size;
} chimere_token;
/* Called for each token. A value other than 0 ends the generation; a few tokens that were sampled
 * by then may still follow. A last call with the id -1 carries text that was held back, if there is
 * any. `token` and its text are valid during the call. */
typedef int (*chimere_token_callback)(void* user_data, const chimere_token* token);

enum {
  CHIMERE_FINISH_STOP = 0,     /* an end-of-generation token or a stop string */
  CHIMERE_FINISH_LENGTH = 1,   /* max-tokens */
  CHIMERE_FINISH_CONTEXT = 2,  /* the context is full */
  CHIMERE_FINISH_CANCELLED = 3 /* the callback asked for it */
};
typedef struct chimere_generation {
  size_t struct_size;
  int32_t finish; /* CHIMERE_FINISH_... */
  int32_t prompt_tokens;
  int32_t reused_tokens; /* prompt tokens whose state was cached */
  int32_t new_tokens;    /* tokens added by this call */
  double prompt_seconds;
  double decode_seconds;
  uint64_t seed; /* of the sampler: the option "seed", or a random one */
} chimere_generation;

/* Adds tokens to the sequence until it ends. Options: settings of sampling ("max-tokens", "temp",
 * "seed", ...), "stop" (a stop string; may be repeated), "logprobs" ("1"), "split" ("1": the text
 * is divided into answer and reasoning, without the tags and the white space between them), and one
 * that the answer follows: "json-schema" (a JSON Schema), "grammar" (GBNF, as in llama.cpp),
 * "regex" (an expression that matches the whole answer) or "choice" (one of these texts; may be
 * repeated). Stop strings and these act on the answer, not on reasoning. The callback may be NULL,
 * and so may `result`.
 *
 * A sequence can be generated in parts: with the same options and seed the tokens are those of one
 * long generation, bit for bit, also when it was saved and restored in between. This excludes
 * generations with a reasoning budget ("reasoning") or Mirostat, which run to their end in one
 * call. A sequence is not drafted (option "speculate"). */
CHIMERE_API chimere_status chimere_generate(chimere_sequence* sequence,
                                            const chimere_option* options, size_t n_options,
                                            chimere_token_callback callback, void* user_data,
                                            chimere_generation* result);

/* Prompt and generation; *prompt_size (may be NULL): how many of them are the prompt. */
CHIMERE_API chimere_status chimere_sequence_get_tokens(chimere_sequence* sequence, int32_t* tokens,
                                                       size_t capacity, size_t* size,
                                                       size_t* prompt_size);

/* ---- Saved sequences ---- */

/* The sequence and its state in the model, to be continued later or in another process. The first
 * call reads the whole model file to identify its weights. */
CHIMERE_API chimere_status chimere_sequence_save(chimere_sequence* sequence, void* bytes,
                                                 size_t capacity, size_t* size);
/* The same into a file, which is replaced when it is complete. */
CHIMERE_API chimere_status chimere_sequence_save_file(chimere_sequence* sequence, const char* path);
/* Errors: CHIMERE_INVALID_DATA (damaged), CHIMERE_UNSUPPORTED (of other weights or another version
 * of the format). Other cache types than those of the saving model are found by the next
 * chimere_generate(). */
CHIMERE_API chimere_status chimere_sequence_restore(chimere_model* model, const void* bytes,
                                                    size_t size, chimere_sequence** sequence);
CHIMERE_API chimere_status chimere_sequence_restore_file(chimere_model* model, const char* path,
                                                         chimere_sequence** sequence);

/* ---- Measures of given text ---- */

/* Natural logarithm of the probability of each token after the ones before it; 0 for the first one.
 * `logprobs` has n_tokens elements. Generations of the model wait meanwhile. */
CHIMERE_API chimere_status chimere_log_probabilities(chimere_model* model, const int32_t* tokens,
                                                     size_t n_tokens, float* logprobs);

/* The embedding of a text, of length 1. Only for embedding models. */
CHIMERE_API chimere_status chimere_embed(chimere_model* model, const char* text, size_t text_size,
                                         float* vector, size_t capacity, size_t* size);

#ifdef __cplusplus
}
#endif

#endif /* CHIMERE_CHIMERE_H_ */
