/* Continues a text: generate MODEL TEXT. MODEL "" is the shipped model. */
#include <chimere/chimere.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(chimere_status status) {
  if (status == CHIMERE_OK) return;
  fprintf(stderr, "generate: %s\n", chimere_last_error());
  exit(1);
}

static int print_token(void* user_data, const chimere_token* token) {
  (void)user_data;
  fwrite(token->text, 1, token->text_size, stdout);
  fflush(stdout);
  return 0; /* continue */
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: generate MODEL TEXT\n");
    return 2;
  }
  const char* name = argv[1][0] != '\0' ? argv[1] : NULL;

  chimere_runtime* runtime;
  check(chimere_runtime_create(NULL, 0, &runtime));
  chimere_model* model;
  const chimere_option load_options[] = {{"backend", "cpu"}};
  check(chimere_model_load(runtime, name, load_options, 1, NULL, NULL, &model));

  /* The first call asks how many tokens there are. */
  size_t n_tokens;
  const size_t text_size = strlen(argv[2]);
  check(chimere_tokenize(model, argv[2], text_size, CHIMERE_TOKENIZE_BOS, NULL, 0, &n_tokens));
  int32_t* tokens = malloc((n_tokens + 1) * sizeof(*tokens));
  if (tokens == NULL) return 1;
  check(chimere_tokenize(model, argv[2], text_size, CHIMERE_TOKENIZE_BOS, tokens, n_tokens,
                         &n_tokens));

  chimere_sequence* sequence;
  check(chimere_sequence_create(model, tokens, n_tokens, &sequence));
  const chimere_option options[] = {{"max-tokens", "24"}, {"temp", "0"}};
  chimere_generation result = {.struct_size = sizeof(result)};
  check(chimere_generate(sequence, options, 2, print_token, NULL, &result));
  printf("\n%d tokens\n", (int)result.new_tokens);

  free(tokens);
  chimere_sequence_free(sequence);
  chimere_model_free(model);
  chimere_runtime_free(runtime);
  return 0;
}
