// Builds Studio: node build.mjs [FOLDER]    default: built, the folder that the server embeds
// Names have no digests, so that the files of a build are those of CMake; the server sends an ETag. Text is stored
// compressed. Compressors differ between versions of Node.js: tests/studio compares what the files contain.
import {mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';
import {build} from 'vite';

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, 'built'));
const staged = join(tmpdir(), `chimere-studio-${process.pid}`);
// The browsers of the last three years: light-dark(), content-visibility, modules.
const target = ['chrome120', 'firefox121', 'safari17.4'];

const common = {
  root: here, configFile: false, logLevel: 'warn', base: './', publicDir: false,
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
};
// The page itself is /, all else is below /studio/.
const names = {
  entryFileNames: 'studio/studio.js', chunkFileNames: 'studio/[name].js', assetFileNames: 'studio/[name][extname]',
};

await build({
  ...common,
  build: {
    outDir: staged, emptyOutDir: true, target, modulePreload: false, assetsInlineLimit: 0, cssCodeSplit: true,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        ...names,
        manualChunks(id) {
          if (id.includes('highlight.js')) return 'highlight';
          if (id.includes('node_modules/katex')) return 'katex';
          if (id.includes('node_modules/uplot')) return 'charts';
          return undefined;
        },
      },
    },
  },
  plugins: [{
    name: 'fonts-in-woff2-only',
    enforce: 'pre',
    // KaTeX names three formats of each font; every browser that runs this page reads the smallest.
    transform(code, id) {
      if (!id.endsWith('katex.min.css')) return null;
      return code.replace(/,\s*url\([^)]*\.(woff|ttf)\)\s*format\("[a-z]*"\)/g, '');
    },
  }],
});
// Mermaid runs in a frame without an origin, which cannot load modules: one plain script.
await build({
  ...common,
  build: {
    outDir: staged, emptyOutDir: false, target, reportCompressedSize: false,
    lib: {entry: join(here, 'src/diagram.ts'), formats: ['iife'], name: 'diagram', fileName: () => 'studio/diagram.js'},
    rollupOptions: {output: {inlineDynamicImports: true}},
  },
});

rmSync(out, {recursive: true, force: true});
mkdirSync(out, {recursive: true});
const put = (name, content) => {
  const plain = name === 'index.html' || name.endsWith('.woff2');
  writeFileSync(join(out, plain ? name : `${name}.gz`), plain ? content : gzipSync(content, {level: 9}));
};
put('index.html', readFileSync(join(staged, 'index.html')));
for (const name of readdirSync(join(staged, 'studio')).sort()) put(name, readFileSync(join(staged, 'studio', name)));
for (const name of ['diagram.html', 'favicon.svg']) put(name, readFileSync(join(here, name)));
rmSync(staged, {recursive: true, force: true});
let total = 0;
for (const name of readdirSync(out).sort()) {
  const {size} = statSync(join(out, name));
  total += size;
  console.log(`${String(size).padStart(9)} ${name}`);
}
console.log(`${String(total).padStart(9)} bytes in all`);
