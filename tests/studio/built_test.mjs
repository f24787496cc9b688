// The committed page is what its sources give; its texts exist in both languages; it is small.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, rmSync, statSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gunzipSync} from 'node:zlib';

const web = resolve(dirname(fileURLToPath(import.meta.url)), '../../web');
const built = join(web, 'built');
const FIRST_LOAD_BYTES = 350 << 10;
const ALL_BYTES = 2_500_000;

execFileSync(process.execPath, [join(web, 'node_modules/typescript/bin/tsc'), '--noEmit', '-p', web], {stdio: 'inherit'});

const fresh = mkdtempSync(join(tmpdir(), 'chimere-built-'));
try {
  execFileSync(process.execPath, [join(web, 'build.mjs'), fresh], {stdio: ['ignore', 'ignore', 'inherit']});
  const content = (folder, name) => {
    const bytes = readFileSync(join(folder, name));
    return name.endsWith('.gz') ? gunzipSync(bytes) : bytes;
  };
  assert.deepEqual(readdirSync(built).sort(), readdirSync(fresh).sort());
  for (const name of readdirSync(fresh)) {
    assert.ok(content(built, name).equals(content(fresh, name)), `${name} differs: run "node build.mjs" in web/`);
  }
} finally {
  rmSync(fresh, {recursive: true, force: true});
}

const size = (name) => statSync(join(built, name)).size;
const first = ['index.html', 'studio.js.gz', 'index.css.gz', 'favicon.svg.gz'].reduce((sum, name) => sum + size(name), 0);
const all = readdirSync(built).reduce((sum, name) => sum + size(name), 0);
assert.ok(first <= FIRST_LOAD_BYTES, `the first load has ${first} bytes`);
assert.ok(all <= ALL_BYTES, `the page has ${all} bytes`);
// Nothing else is loaded before a text or a view needs it.
const script = gunzipSync(readFileSync(join(built, 'studio.js.gz'))).toString();
assert.ok(!/(^|;)import[^(;]{0,200}from\s*"/.test(script), 'studio.js imports another file at once');

// Every text of t("...") has a French form, and no French form is unused.
const sources = readdirSync(join(web, 'src'), {recursive: true}).filter((name) => /\.tsx?$/.test(name) && name !== 'french.ts')
  .map((name) => readFileSync(join(web, 'src', name), 'utf8')).join('\n');
const french = readFileSync(join(web, 'src/french.ts'), 'utf8');
const unquote = (text) => text.replace(/\\'/g, "'");
const keys = new Set([...french.matchAll(/^ {2}(?:'((?:[^'\\]|\\.)*)'|"([^"]*)"):/gm)].map((m) => m[2] ?? unquote(m[1])));
const used = new Set([...sources.matchAll(/\bt\((?:'((?:[^'\\]|\\.)*)'|"([^"]*)")/g)].map((m) => m[2] ?? unquote(m[1])));
assert.ok(used.size > 100 && keys.size > 100, `${used.size} texts, ${keys.size} in French`);
assert.deepEqual([...used].filter((text) => !keys.has(text)), []);
assert.deepEqual([...keys].filter((text) => !sources.includes(`'${text.replace(/'/g, "\\'")}'`) && !sources.includes(`"${text}"`)), []);

console.log(`first load ${first} bytes, in all ${all}; ${used.size} texts in two languages`);
