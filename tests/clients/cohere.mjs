// Reranking and embeddings through Cohere's own client library:
//   cohere.mjs CHIMERE MODEL EMBEDDER RERANKER
import assert from 'node:assert/strict';
import {CohereClientV2, CohereError} from 'cohere-ai';
import {startServer} from './server.mjs';

const [program, modelFile, embedder, reranker] = process.argv.slice(2);
const documents = ['the lamp', 'a moth is a moth', 'list'];

async function checkRerank(client) {
  const request = {model: 'ranker', query: 'what is a moth', documents};
  const {results, meta} = await client.rerank(request);
  assert.equal(meta.apiVersion.version, '2');
  assert.deepEqual(results.map((r) => r.index).sort(), [0, 1, 2]);
  const scores = results.map((r) => r.relevanceScore);
  assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
  const best = await client.rerank({...request, topN: 1, maxTokensPerDoc: 100});
  assert.deepEqual(best.results, results.slice(0, 1));
}

async function checkEmbed(client) {
  const request = {model: 'chimere-embed', inputType: 'search_document', texts: documents};
  const {embeddings, texts, responseType} = await client.embed({...request, embeddingTypes: ['float', 'base64']});
  assert.deepEqual([texts, responseType], [documents, 'embeddings_by_type']);
  assert.equal(embeddings.float.length, 3);
  embeddings.base64.forEach((text, i) => {
    const bytes = Buffer.from(text, 'base64');
    assert.deepEqual(embeddings.float[i].map(Math.fround), embeddings.float[i].map((_, j) => bytes.readFloatLE(4 * j)));
  });
  const plain = await client.embed(request);
  assert.deepEqual(plain.embeddings.float, embeddings.float);
  assert.equal(plain.embeddings.base64, undefined);
  const short = await client.embed({...request, outputDimension: 8});
  assert.ok(short.embeddings.float.every((v) => v.length === 8));
}

async function checkErrors(client) {
  const refused = (promise, status, message) =>
    assert.rejects(promise, (e) => e instanceof CohereError && e.statusCode === status && message.test(JSON.stringify(e.body)));
  const embed = {model: 'chimere-embed', inputType: 'search_query', texts: ['a']};
  await refused(client.embed({...embed, embeddingTypes: ['int8']}), 400, /embedding_types/);
  await refused(client.embed({...embed, truncate: 'END'}), 400, /truncate/);
  await refused(client.embed({...embed, model: 'none'}), 404, /none/);
  await refused(client.rerank({model: 'chimere-embed', query: 'a', documents}), 400, /model_does_not_rank/);
}

const server = await startServer(program, modelFile, '--strict-names', '--embedding-model', embedder, '--rerank-model', reranker);
try {
  const client = new CohereClientV2({token: 'any', environment: server.url, maxRetries: 0});
  for (const check of [checkRerank, checkEmbed, checkErrors]) {
    await check(client);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
